"""Frames that are sent between workers and to the driver: large ones through files, if all are on one machine.

Spark copies transported data about ten times, so for a large frame only the name of a file is transported. The file
stays until the driver has assembled the epoch, so that a retried task finds it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import polars as pl
import pyarrow as pa

from operators.core.checked_file import CheckedWriter
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError
from operators.core.frame_ipc import frame_from_ipc, frame_to_ipc, map_checked, write_frames

#: The least size in bytes of a frame that goes into a file, because a file has a cost of its own.
MIN_FILE_BYTES = 1 << 16
#: The prefix of a file's name; no Arrow stream begins like this.
_FILE = b"file:"


class Frame:
    """The rows of a message: a Polars frame within a process, packed bytes between processes.

    >>> rows = pl.DataFrame({"a": [1]})
    >>> Frame(rows).rows is rows, Frame(Frame(rows).pack(None)).rows.equals(rows)
    (True, True)
    """

    __slots__ = ("content",)

    def __init__(self, content: pl.DataFrame | bytes) -> None:
        self.content = content

    @property
    def rows(self) -> pl.DataFrame:
        """The rows; each call unpacks a packed frame."""
        return unpack(self.content) if isinstance(self.content, bytes) else self.content

    def pack(self, directory: Path | None) -> bytes:
        """The rows as bytes; a large frame goes into a new file of the directory, if there is one."""
        return self.content if isinstance(self.content, bytes) else pack([self.content], directory)


def pack(frames: Iterable[pl.DataFrame], directory: Path | None) -> bytes:
    """The concatenation of frames of one schema, at least one, as bytes: the rows, or the name of a new file in the
    directory if the first frame is large. Frames go into a file one by one; none is larger than the first.

    >>> unpack(pack([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], None))["a"].to_list()
    [1, 2]
    """
    parts = iter(frames)
    first = next(parts)
    if directory is None or first.estimated_size() < MIN_FILE_BYTES:
        return frame_to_ipc(pl.concat([first, *parts]))
    handle, path = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "wb") as file, pa.PythonFile(CheckedWriter(file), "w") as out:  # type: ignore[arg-type]
        write_frames(chain([first], parts), out, compression=None)
    return _FILE + os.fsencode(path)


def unpack(blob: bytes) -> pl.DataFrame:
    """The frame that was packed. A file is mapped, not copied. Raises ExternalError if the file differs from what was
    written; the batch is then computed again."""
    if not blob.startswith(_FILE):
        return frame_from_ipc(blob)
    path = Path(os.fsdecode(blob[len(_FILE) :]))
    try:
        return map_checked(path, stream=True)
    except Malformed as error:
        raise ExternalError(f'"{path}" is damaged: {error}', hint="the batch is computed again") from error


class FrameDirectories:
    """Two directories that batches use in turn, because a batch is read while the previous one is computed."""

    def __init__(self, directory: Path) -> None:
        self._free, self.next = directory / "frames-1", directory / "frames-2"
        for path in (self._free, self.next):
            path.mkdir()

    def turn(self) -> Path:
        """Makes the other directory the next one."""
        self._free, self.next = self.next, self._free
        return self.next


def remove_files(directory: Path | None) -> None:
    """Removes all files of the directory. Frames that are mapped from them stay readable."""
    if directory is not None:
        for path in directory.iterdir():
            path.unlink()
