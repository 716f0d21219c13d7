"""Which topics of dropped objects the threads of this process are deleting."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class DeletionClaims:
    """The topics that a thread of this process is deleting: each topic is deleted by one thread at a time.

    >>> claims = DeletionClaims()
    >>> with claims.claimed(["a"]), claims.claimed(["a", "b"]) as mine:
    ...     sorted(mine)
    ['b']
    >>> claims.free(["a", "b"])
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics = frozenset[str]()

    def free(self, topics: Iterable[str]) -> list[str]:
        """The topics that no thread is deleting."""
        return [topic for topic in topics if topic not in self._topics]

    @contextmanager
    def claimed(self, topics: Iterable[str]) -> Iterator[frozenset[str]]:
        """Claims those of the topics that no other thread has claimed; they are released at the end of the block."""
        with self._lock:
            mine = frozenset(self.free(topics))
            self._topics |= mine
        try:
            yield mine
        finally:
            with self._lock:
                self._topics -= mine
