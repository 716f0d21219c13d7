"""Files that outlive a crash of the machine."""

import os
from pathlib import Path


def flush_to_disk(path: Path) -> None:
    """Returns once a file is on the disk; of a directory, the names of what is in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
