"""The scratch directory has the files that one run of an executor needs; they are removed after the run.

It also has Spark's temporary files. If an executor is killed, its next start removes all of them.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The most bytes of the directory's path: a socket's path has at most 106 bytes in Java, and Spark's name takes 43.
_LONGEST = 63


@contextmanager
def scratch_directory(scratch: Path) -> Iterator[None]:
    """Creates the scratch directory and the directory of temporary files, and removes both at the end. Both are empty
    at first, even after a killed run.
    """
    _remove(scratch)
    make_directories(scratch)
    try:
        yield
    finally:
        _remove(scratch)


def make_directories(scratch: Path) -> None:
    """Creates the scratch directory and that of temporary files, unless they exist."""
    for directory in _both(scratch):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def temporary_directory(scratch: Path) -> Path:
    """The directory of the JVM's temporary files, including the sockets between the JVM and Python. It is the scratch
    directory or, if the path of that is too long for sockets, a directory whose short path is derived from it.

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
