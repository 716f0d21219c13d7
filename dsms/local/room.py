"""Room on the disk of the data directory: how much the services need, and what is said while there is too little."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dsms.model.sizes import written_bytes


def free_bytes(directory: Path) -> int:
    """The bytes that may still be written to the disk of a directory."""
    return shutil.disk_usage(directory).free


@dataclass(frozen=True, slots=True)
class Room:
    """The services take work while `reserve` bytes are free, so that none of them meets a full disk. Once they have
    stopped they go on when twice as much is free, so that they do not stop again at once.

    >>> free = [300, 90, 150, 200]
    >>> room = Room(Path("/d"), 100, lambda _: free.pop(0))
    >>> room.lack() is None, room.lack() is None, room.lack(stopped=True) is None, room.lack(stopped=True) is None
    (True, False, False, True)
    """

    directory: Path
    reserve: int
    free: Callable[[Path], int] = free_bytes

    def lack(self, *, stopped: bool = False) -> str | None:
        """Why the services can take no work; None if they can. `stopped` says whether they have stopped for it."""
        free, needed = self.free(self.directory), self.reserve * (2 if stopped else 1)
        if free >= needed:
            return None
        sizes = f"has {written_bytes(free)} free, and the services need {written_bytes(needed)}"
        return f'the disk of "{self.directory}" {sizes}'


def advice(reserve: int) -> str:
    """What a person can do about too little room."""
    return (
        f"free disk space: the services go on by themselves when {written_bytes(2 * reserve)} are free; "
        "dsms.toml or DSMS_DISK_RESERVE sets another disk_reserve"
    )
