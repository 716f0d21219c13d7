"""The directory in which one run of an executor keeps what nobody needs after it.

All that Spark would put into the machine's temporary directory is here too, so a killed executor leaves nothing that
its next start does not remove.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A socket's path has at most 107 bytes, of which Spark's name for it takes 43.
_LONGEST = 64


@contextmanager
def scratch_directory(scratch: Path) -> Iterator[None]:
    """Makes it anew, and that of temporary files, whatever a run that was killed left in them; removes both."""
    both = {scratch, temporary_directory(scratch)}
    _remove(both)
    for directory in both:
        directory.mkdir(parents=True, mode=0o700)
    try:
        yield
    finally:
        _remove(both)


def temporary_directory(scratch: Path) -> Path:
    """Where the JVM puts temporary files, the sockets where it meets Python among them: the same directory, or one of a
    short name that belongs to it.

    >>> temporary_directory(Path("/data/scratch/executor-1"))
    PosixPath('/data/scratch/executor-1')
    >>> len(temporary_directory(Path("/data/" + 60 * "a")).name)
    17
    """
    if len(bytes(scratch)) <= _LONGEST:
        return scratch
    return Path(tempfile.gettempdir()) / f"dsms-{hashlib.sha256(bytes(scratch)).hexdigest()[:12]}"


def _remove(directories: set[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
