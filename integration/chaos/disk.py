"""A small separate disk for a data directory, which can be filled (a tmpfs, which needs root)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Disk:
    """A mounted disk."""

    directory: Path

    @property
    def _filler(self) -> Path:
        return self.directory / "filler"

    def fill(self) -> None:
        """Fills the disk until no byte is free."""
        with suppress(OSError), self._filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()

    def free(self) -> None:
        """Frees what `fill` took."""
        self._filler.unlink(missing_ok=True)


def can_mount() -> bool:
    """Whether this process may mount disks."""
    return os.name == "posix" and os.geteuid() == 0 and Path("/proc/mounts").exists()


@contextmanager
def mounted(directory: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of that size at the directory, while the block runs."""
    directory.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", directory], check=True)
    try:
        yield Disk(directory)
    finally:
        subprocess.run(["umount", "-l", directory], check=True)
