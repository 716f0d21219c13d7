"""Files that survive a crash of the machine."""

import os
from pathlib import Path


def flush_to_disk(path: Path) -> None:
    """Returns once a file is on the disk; for a directory, once its entries are."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
