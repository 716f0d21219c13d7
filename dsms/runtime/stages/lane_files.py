"""Lanes on their way from the driver to the workers: on one machine, by the name of a file.

A lane of a thousand queries is a megabyte, and it goes along with every batch, several times. It changes only when
queries come or go: each process reads it once, and what it remembers of a lane lasts as long as the file.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dsms.physical.lane import Lane


@dataclass(frozen=True, eq=False)
class FiledLane(Lane):
    """A lane that is pickled as the name of its file."""

    path: str = ""

    def __reduce__(self) -> tuple[object, ...]:
        return _read, (self.path,)


#: What this process has read, by file.
_here: dict[str, FiledLane] = {}


def _read(path: str) -> FiledLane:
    """The lane of a file. With each new one those are forgotten whose files are gone: their lanes run no more."""
    if path not in _here:
        for gone in [one for one in _here if not Path(one).exists()]:
            del _here[gone]
        _here[path] = FiledLane(**pickle.loads(Path(path).read_bytes()), path=path)
    return _here[path]


class LaneFiles:
    """Keeps lanes in files of a directory, each as long as it is wanted. Without a directory they go along as they are.

    Several threads may call it.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        if directory is not None:
            directory.mkdir(parents=True)
        #: By identity, with the lanes themselves, so that no identity is used twice.
        self._known: dict[int, tuple[Lane, FiledLane]] = {}
        self._lock = threading.Lock()

    def filed(self, lane: Lane) -> Lane:
        """The lane as it is to be pickled."""
        if self._directory is None:
            return lane
        with self._lock:
            if id(lane) not in self._known:
                self._known[id(lane)] = lane, self._written(lane, self._directory)
            return self._known[id(lane)][1]

    def keep(self, lanes: Iterable[Lane]) -> None:
        """Removes the files of all others."""
        wanted = {id(lane) for lane in lanes}
        with self._lock:
            gone = [self._known.pop(known) for known in self._known.keys() - wanted]
        for _, filed in gone:
            Path(filed.path).unlink(missing_ok=True)

    @staticmethod
    def _written(lane: Lane, directory: Path) -> FiledLane:
        parts: dict[str, Any] = {one.name: getattr(lane, one.name) for one in fields(Lane)}
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            pickle.dump(parts, file)
        return FiledLane(**parts, path=file.name)
