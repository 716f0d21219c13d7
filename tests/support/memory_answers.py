"""A store of answers in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict

from dsms.coordinator.idempotency.redis_answers import MOST_KEYS


class MemoryAnswers:
    """Entries of this process."""

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Keeps an entry unless there is one, which is given then."""
        with self._lock:
            if key in self._held:
                return self._held[key]
            self._held[key] = entry
            while len(self._held) > self._most:
                self._held.popitem(last=False)
            return None

    def replace(self, key: str, held: bytes, entry: bytes) -> bool:
        """Puts an entry in the place of one."""
        with self._lock:
            if self._held.get(key) != held:
                return False
            self._held[key] = entry
            return True
