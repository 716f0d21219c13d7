"""The answers that are kept for idempotency keys."""

from __future__ import annotations

from typing import Protocol

#: How long an entry is kept, and how many; the oldest are removed first.
TTL_S, MOST_KEYS = 24 * 3600, 10_000


class AnswerStore(Protocol):
    """Entries by key, limited in age and number. Raises ExternalError if it cannot be reached."""

    def begin(self, key: str, entry: bytes) -> bytes | None:
        """Stores the entry and returns None; if the key has an entry already, returns that one instead."""
        ...

    def replace(self, key: str, expected: bytes, entry: bytes) -> bool:
        """Replaces the entry if it equals `expected`; its age stays. Returns False if the key has another entry or
        none."""
        ...
