"""Writes files to disk, where they survive a crash of the machine."""

import os
from pathlib import Path


def flush_to_disk(path: Path) -> None:
    """Waits until a file, or the list of entries of a directory, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
