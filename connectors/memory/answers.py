"""The answers that are kept for idempotency keys, in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from connectors.state.store import MAX_KEYS, TTL_S


class Kept(NamedTuple):
    """An entry, and the time of the clock at which it was begun, in seconds."""

    entry: bytes
    begun: float


class MemoryAnswers:
    """Implements `connectors.state.store.AnswerStore`."""

    def __init__(self, clock: Callable[[], float] = time.time, most: int = MAX_KEYS) -> None:
        self._clock, self._most = clock, most
        #: By key, the oldest first.
        self._kept: dict[str, Kept] = {}
        self._lock = threading.Lock()

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Stores the entry and returns None; if the key has an entry already, returns that one instead."""
        with self._lock:
            self._expire()
            if key in self._kept:
                return self._kept[key].entry
            self._kept[key] = Kept(entry, self._clock())
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
            return None

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        """Replaces the entry if it equals `expected`; False if the key has another entry or none."""
        with self._lock:
            self._expire()
            kept = self._kept.get(key)
            if kept is None or kept.entry != expected:
                return False
            self._kept[key] = Kept(entry, kept.begun)
            return True

    def all(self) -> dict[str, Kept]:
        """The entries by key, the oldest first."""
        with self._lock:
            return dict(self._kept)

    def restore(self, entries: Mapping[str, Kept]) -> None:
        """Replaces all entries, as a server that restarts may."""
        with self._lock:
            self._kept = dict(entries)

    def _expire(self) -> None:
        oldest = self._clock() - TTL_S
        while self._kept and next(iter(self._kept.values())).begun <= oldest:
            del self._kept[next(iter(self._kept))]
