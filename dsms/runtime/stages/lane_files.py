"""Sends lanes from the driver to the workers: as names of files, if all are on one machine.

A lane of a thousand queries takes a megabyte, and every batch would carry it several times. It changes only when
queries are added or removed, so each process reads its file once, and forgets the lane when the file is gone.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dsms.planner.physical.lane import Lane
from operators.core.call_depth import allow_deep_calls
from operators.core.checked_file import content_of, sealed
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError


@dataclass(frozen=True, eq=False)
class FiledLane(Lane):
    """A lane that is pickled as the name of its file."""

    path: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        return _read, (self.path,)


#: The lanes that this process has read, by file.
_lanes_read: dict[str, FiledLane] = {}


def _read(path: str) -> FiledLane:
    """The lane in a file. Reading a new lane also forgets the lanes whose files are gone: they do not run any more."""
    if path not in _lanes_read:
        for gone in [known for known in _lanes_read if not Path(known).exists()]:
            del _lanes_read[gone]
        allow_deep_calls()
        _lanes_read[path] = FiledLane(**pickle.loads(_content(path)), path=path)
    return _lanes_read[path]


def _content(path: str) -> memoryview:
    try:
        return content_of(Path(path).read_bytes())
    except Malformed as error:
        raise ExternalError(f'"{path}" is damaged: {error}', hint="the fragment restarts") from error


class LaneFiles:
    """Keeps lanes in files of a directory; without a directory, lanes are pickled in full. Thread-safe."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        if directory is not None:
            directory.mkdir(parents=True)
        #: By `id(lane)`. The lane itself is kept so that Python does not use its `id` again.
        self._known: dict[int, tuple[Lane, FiledLane]] = {}
        self._lock = threading.Lock()

    def filed(self, lane: Lane) -> Lane:
        """The lane in the form in which it is pickled."""
        if self._directory is None:
            return lane
        with self._lock:
            if id(lane) not in self._known:
                self._known[id(lane)] = lane, self._written(lane, self._directory)
            return self._known[id(lane)][1]

    def keep(self, lanes: Iterable[Lane]) -> None:
        """Removes the files of all other lanes."""
        wanted = {id(lane) for lane in lanes}
        with self._lock:
            gone = [self._known.pop(known) for known in self._known.keys() - wanted]
        for _, filed in gone:
            Path(filed.path).unlink(missing_ok=True)

    @staticmethod
    def _written(lane: Lane, directory: Path) -> FiledLane:
        parts: dict[str, Any] = {part.name: getattr(lane, part.name) for part in fields(Lane)}
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            file.write(sealed(pickle.dumps(parts)))
        return FiledLane(**parts, path=file.name)
