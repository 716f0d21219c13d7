"""Keeps reads of topics and the deletion of a topic apart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Reads:
    """Counts reads, and lets a caller wait until there are none. The caller has to prevent new reads."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Counts a read that begins; `end` must follow."""
        with self._changed:
            self._count += 1

    def end(self) -> None:
        """Counts a read that has ended."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Waits until no read is under way. No read may begin before the block ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0)
            yield
