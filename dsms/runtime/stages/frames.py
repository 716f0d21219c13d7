"""Frames on their way from worker to worker and to the driver: where all are on one machine, through files.

Spark copies what goes through it some ten times, so of a large frame only the name of a file does. The file is there
until the driver has put the epoch together: a task that is tried again finds it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa

from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc, map_frame, write_frames

#: Frames of fewer bytes are sent as they are: a file has its price too.
WORTHWHILE = 1 << 16
#: No Arrow stream begins so.
_FILE = b"file:"


class Frame:
    """The rows of a message: a Polars frame within a process, packed bytes on the way to another one.

    >>> rows = pl.DataFrame({"a": [1]})
    >>> Frame(rows).rows is rows, Frame(Frame(rows).pack(None)).rows.equals(rows)
    (True, True)
    """

    __slots__ = ("content",)

    def __init__(self, content: pl.DataFrame | bytes) -> None:
        self.content = content

    @property
    def rows(self) -> pl.DataFrame:
        """The rows; of a packed frame they are read, or mapped from its file, at each call."""
        return unpack(self.content) if isinstance(self.content, bytes) else self.content

    def pack(self, directory: Path | None) -> bytes:
        """The rows as bytes; a large frame goes into a new file of the directory, if there is one."""
        return self.content if isinstance(self.content, bytes) else pack([self.content], directory)


def pack(frames: Iterable[pl.DataFrame], directory: Path | None) -> bytes:
    """Frames of one schema end to end, at least one, as bytes: all of them, or the name of a new file in the
    directory. If the first is large, each is written as it comes; the others are no larger.

    >>> unpack(pack([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], None))["a"].to_list()
    [1, 2]
    """
    parts = iter(frames)
    first = next(parts)
    if directory is None or first.estimated_size() < WORTHWHILE:
        return frame_to_ipc(pl.concat([first, *parts]))
    handle, path = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "wb") as file, pa.PythonFile(file, "w") as out:
        write_frames(chain([first], parts), out, compression=None)
    return _FILE + os.fsencode(path)


def unpack(blob: bytes) -> pl.DataFrame:
    """The frame that `pack` was given; a file is mapped, not copied."""
    if not blob.startswith(_FILE):
        return frame_from_ipc(blob)
    return map_frame(Path(os.fsdecode(blob[len(_FILE) :])), stream=True)


def remove_files(directory: Path | None) -> None:
    """Removes all files of the directory; frames that are mapped stay readable."""
    if directory is not None:
        for path in directory.iterdir():
            path.unlink()
