"""Checks the free space on the disk of the data directory, and says what to do if the services need more."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsms.model.sizes import format_size


def free_bytes(directory: Path) -> int:
    """The bytes that may still be written to the disk of a directory."""
    return shutil.disk_usage(directory).free


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """The services run while `reserve` bytes are free; so none of them fills the disk. Once they are stopped, they
    start again only when twice as much is free; so they do not stop again at once.

    >>> free = [300, 90, 150, 200]
    >>> disk = DiskReserve(Path("/d"), 100, lambda _: free.pop(0))
    >>> [disk.shortage(stopped=stopped) is None for stopped in (False, False, True, True)]
    [True, False, False, True]
    """

    directory: Path
    reserve: int
    free: Callable[[Path], int] = free_bytes

    def shortage(self, *, stopped: bool = False) -> str | None:
        """Why the services cannot run; None if they can. `stopped` says whether they are stopped for this reason."""
        free, needed = self.free(self.directory), self.reserve * (2 if stopped else 1)
        if free >= needed:
            return None
        sizes = f"has {format_size(free)} free, but the services need {format_size(needed)}"
        return f'the disk of "{self.directory}" {sizes}'


def advice(reserve: int) -> str:
    """A hint for users with too little free space."""
    return (
        f"free disk space: the services start again by themselves when {format_size(2 * reserve)} are free; "
        "to change the limit, set disk_reserve in dsms.toml, or DSMS_DISK_RESERVE"
    )
