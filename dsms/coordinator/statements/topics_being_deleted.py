"""Topics whose objects are dropped, while executors may still write them: nothing new may take them over."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from operators.core.errors import ExternalError


class TopicsBeingDeleted:
    """The topics that are about to be deleted.

    >>> topics = TopicsBeingDeleted()
    >>> with topics.deleting(["dsms.q"]):
    ...     topics.check("dsms.q")
    Traceback (most recent call last):
    operators.core.errors.ExternalError: topic "dsms.q" is being deleted; try again
    >>> topics.check("dsms.q")
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics = Counter[str]()

    def check(self, topic: str) -> None:
        """Raises ExternalError for a topic that is about to be deleted."""
        with self._lock:
            if self._topics[topic]:
                raise ExternalError(f'topic "{topic}" is being deleted', hint="try again")

    @contextmanager
    def deleting(self, topics: Iterable[str]) -> Iterator[None]:
        """While it lasts, no object can be made over the topics."""
        names = list(topics)
        with self._lock:
            self._topics.update(names)
        try:
            yield
        finally:
            with self._lock:
                self._topics.subtract(names)
