"""Steps the wall clock of a process and its children, by a preloaded library: `clock_offset.c`.

libfaketime 0.9.10, which Debian has, cannot be used: with its monotonic clock left alone, `time.sleep` of Python 3.11
fails at once with EINVAL.
"""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock_offset.c")
#: The longest step: a day.
MAX_S = 86_400


def compiler() -> str | None:
    """The C compiler of this machine, or None."""
    return shutil.which("cc") or shutil.which("gcc")


@dataclass(frozen=True)
class Clock:
    """The wall clock of a process, as an offset in a file that it has mapped into its memory."""

    library: Path
    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment that the process must be started with. It does not affect the monotonic clock."""
        return {"LD_PRELOAD": str(self.library), "CHAOS_CLOCK": str(self.file)}

    def step(self, seconds: float) -> None:
        """Sets the offset of the clock from the true time, in seconds, at once."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))


def clocks(directory: Path, names: Iterable[str]) -> dict[str, Clock]:
    """A clock for each name, without an offset; no clocks if there is no compiler."""
    program = compiler()
    if program is None:
        return {}
    library = directory / "clock_offset.so"
    subprocess.run([program, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl", "-lpthread"], check=True)
    made = {name: Clock(library, directory / f"{name}.clock") for name in names}
    for clock in made.values():
        clock.file.write_bytes(bytes(8))
    return made


def step_of(size: float) -> float:
    """The step in seconds for a size from -1 to 1: less than five minutes for half of the sizes, many hours for some.

    >>> [round(step_of(size)) for size in (0, 0.3, -0.6, 1)]
    [1, 30, -916, 86400]
    """
    return math.copysign(MAX_S ** abs(size), size)
