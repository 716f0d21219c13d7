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

#: Frames of fewer bytes go along: a file has its price too.
WORTHWHILE = 1 << 16
#: No Arrow stream begins so.
_FILE = b"file:"


def packed(frames: Iterable[pl.DataFrame], directory: Path | None) -> bytes:
    """Frames of one schema end to end, at least one, as bytes: all of them, or the name of a new file in the
    directory. If the first is large, each is written as it comes; the others are no larger.

    >>> unpacked(packed([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], None))["a"].to_list()
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
