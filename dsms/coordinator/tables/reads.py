"""Keeps reads of topics and the deletion of a topic apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Reads:
    """Counts reads, and lets a caller wait until there are none. Reads that would begin meanwhile wait, too."""

    def __init__(self) -> None:
        self._count, self._pausing = 0, 0
        self._changed = threading.Condition()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts a read, which is the block."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Counts a read that begins; `end` must follow."""
        with self._changed:
            self._changed.wait_for(lambda: self._pausing == 0)
            self._count += 1

    def end(self) -> None:
        """Counts a read that has ended."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Waits until no read is under way, and lets none begin before the block ends."""
        with self._changed:
            self._pausing += 1
            try:
                self._changed.wait_for(lambda: self._count == 0)
                yield
            finally:
                self._pausing -= 1
                self._changed.notify_all()
