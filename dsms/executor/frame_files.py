"""Frames on their way from worker to worker and to the driver: where all are on one machine, through files.

Spark copies what goes through it some ten times, so of a large frame only the name of a file does. The file is there
until the driver has put the epoch together: a task that is tried again finds it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa

from operators.frame_ipc import frame_from_ipc, frame_to_ipc, map_frame, write_frame

#: Frames of fewer bytes go along: a file has its price too.
WORTHWHILE = 1 << 16
#: No Arrow stream begins so.
_FILE = b"file:"


def packed(frame: pl.DataFrame, directory: Path | None) -> bytes:
    """A frame as bytes: all of it, or the name of a new file in the directory.

    >>> unpacked(packed(pl.DataFrame({"a": [1]}), None))["a"].to_list()
    [1]
    """
    if directory is None or frame.estimated_size() < WORTHWHILE:
        return frame_to_ipc(frame)
    handle, path = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "wb") as file, pa.PythonFile(file, "w") as out:
        write_frame(frame, out, compression=None)
    return _FILE + os.fsencode(path)


def unpacked(blob: bytes) -> pl.DataFrame:
    """What `packed` was given; a file is mapped, not copied."""
    if not blob.startswith(_FILE):
        return frame_from_ipc(blob)
    return map_frame(Path(os.fsdecode(blob[len(_FILE) :])), stream=True)


def clear(directory: Path | None) -> None:
    """Removes all files of the directory; what is mapped stays."""
    if directory is not None:
        for path in directory.iterdir():
            path.unlink()
