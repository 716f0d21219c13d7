"""A store of answers to repeated requests, in the memory of this process."""

from __future__ import annotations

import threading
from collections import OrderedDict

from dsms.coordinator.idempotency.redis_answers import MOST_KEYS


class MemoryAnswerStore:
    """An `AnswerStore` that keeps the newest `most` entries."""

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self.entries: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Stores the entry of a new key and returns None; for a known key, returns the stored entry."""
        with self._lock:
            if key in self.entries:
                return self.entries[key]
            self.entries[key] = entry
            while len(self.entries) > self._most:
                self.entries.popitem(last=False)
            return None

    def replace(self, key: str, held: bytes, entry: bytes) -> bool:
        """Replaces the entry `held`; False if the key has another entry or no entry."""
        with self._lock:
            if self.entries.get(key) != held:
                return False
            self.entries[key] = entry
            return True
