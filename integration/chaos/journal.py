"""What happened when: lines with the seconds of the run, on the console and in a file."""

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
