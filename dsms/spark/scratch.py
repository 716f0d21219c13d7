"""The directory of the files that one run of an executor needs and that are removed after it.

Spark's temporary files are here too, so all files that a killed executor leaves are removed by its next start.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A socket's path has at most 106 bytes in Java, of which Spark's name for it takes 43.
_LONGEST = 63


@contextmanager
def scratch_directory(scratch: Path) -> Iterator[None]:
    """Makes the scratch directory and that of temporary files, empty even after a run that was killed; at the end
    removes both."""
    _remove(scratch)
    make_directories(scratch)
    try:
        yield
    finally:
        _remove(scratch)


def make_directories(scratch: Path) -> None:
    """Makes the scratch directory and that of temporary files, where somebody has removed them."""
    for directory in _both(scratch):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def temporary_directory(scratch: Path) -> Path:
    """The directory of the JVM's temporary files, among them the sockets between it and Python: the scratch directory
    itself or, if its path is too long for sockets, one with a short path that belongs to it.

    >>> temporary_directory(Path("/data/scratch/executor-1"))
    PosixPath('/data/scratch/executor-1')
    >>> len(temporary_directory(Path("/data/" + 60 * "a")).name)
    17
    """
    if len(bytes(scratch)) <= _LONGEST:
        return scratch
    return Path(tempfile.gettempdir()) / f"dsms-{hashlib.sha256(bytes(scratch)).hexdigest()[:12]}"


def _both(scratch: Path) -> set[Path]:
    return {scratch, temporary_directory(scratch)}


def _remove(scratch: Path) -> None:
    for directory in _both(scratch):
        shutil.rmtree(directory, ignore_errors=True)
