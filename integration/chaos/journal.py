"""The journal of a run: lines with the seconds since its beginning, in a file and partly on the console."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.cluster import report


@dataclass
class Journal:
    """A log of the run."""

    file: Path
    begun: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, line: str) -> None:
        """Appends a line."""
        with self._lock, self.file.open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {time.monotonic() - self.begun:8.2f} {line}\n")

    def say(self, line: str) -> None:
        """Appends a line, and shows it."""
        self.write(line)
        report(line)
