"""Topics of dropped objects that executors may still be writing: no new object may use them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from operators.core.errors import ExternalError


class TopicsBeingDeleted:
    """The topics that will soon be deleted.

    >>> topics = TopicsBeingDeleted()
    >>> with topics.reserved(["dsms.q"]):
    ...     topics.check("dsms.q")
    Traceback (most recent call last):
    operators.core.errors.ExternalError: topic "dsms.q" is being deleted; try again
    >>> topics.check("dsms.q")
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics = Counter[str]()

    def check(self, topic: str) -> None:
        """Raises ExternalError for a topic that will soon be deleted."""
        with self._lock:
            if self._topics[topic]:
                raise ExternalError(f'topic "{topic}" is being deleted', hint="try again")

    @contextmanager
    def reserved(self, topics: Iterable[str]) -> Iterator[None]:
        """Inside the block, no object can be created over the topics."""
        names = list(topics)
        with self._lock:
            self._topics.update(names)
        try:
            yield
        finally:
            with self._lock:
                self._topics.subtract(names)
