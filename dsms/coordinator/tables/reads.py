"""Reads of topics, and the deletion of a topic between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Reads:
    """Counts reads; whoever keeps new ones from beginning can wait until there are none."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def begin(self) -> None:
        """A read begins; `end` must follow."""
        with self._changed:
            self._count += 1

    def end(self) -> None:
        """A read has ended."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """Waits until no read is under way; no other may begin before this ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._count == 0)
            yield
