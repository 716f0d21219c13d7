"""Documents by name, some of which expire."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Document:
    """The body of a document, and the time of the clock at which it expires, in seconds; inf if it never does."""

    body: bytes
    ends: float


class Documents:
    """Documents by name. Several threads may use them.

    >>> now = [0.0]
    >>> documents = Documents(lambda: now[0])
    >>> documents.set("executor:e", b"alive", lasts_s=4)
    >>> now[0] = 4.0
    >>> documents.get("executor:e")
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._documents: dict[str, Document] = {}

    def get(self, name: str) -> bytes | None:
        """A document; None if it does not exist or has expired."""
        found = self.all(name).get(name)
        return None if found is None else found.body

    def set(self, name: str, body: bytes, lasts_s: float = inf) -> None:
        """Replaces a document."""
        with self._lock:
            self._documents[name] = Document(body, self._clock() + lasts_s)

    def delete(self, name: str) -> None:
        """Removes a document."""
        with self._lock:
            self._documents.pop(name, None)

    def all(self, prefix: str = "") -> dict[str, Document]:
        """The documents whose names begin with a prefix, in the order of their names."""
        with self._lock:
            now = self._clock()
            self._documents = {name: each for name, each in self._documents.items() if now < each.ends}
            return {name: self._documents[name] for name in sorted(self._documents) if name.startswith(prefix)}
