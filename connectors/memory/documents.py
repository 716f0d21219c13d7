"""The documents of a cluster in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isinf


@dataclass(frozen=True)
class Document:
    """The body of a document, and the time of the clock at which it expires, in seconds; inf if it never does."""

    body: bytes
    ends: float


class MemoryDocumentStore:
    """Implements `connectors.state.documents.DocumentStore`. Several threads may use it. `clock` returns seconds.

    >>> now = [0.0]
    >>> documents = MemoryDocumentStore(lambda: now[0])
    >>> documents.set("executor:e", b"alive", "renewing the lease of an executor", ttl_ms=4_000)
    >>> documents.expiring("executor:", "reading the statuses of executors")
    {'e': b'alive'}
    >>> now[0] = 4.0
    >>> documents.get("executor:e")
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._documents: dict[str, Document] = {}

    def get(self, name: str) -> bytes | None:
        """A document; None if it does not exist or has expired."""
        found = self.all().get(name)
        return None if found is None else found.body

    def set(self, name: str, body: bytes, doing: str, ttl_ms: int | None = None) -> None:
        """Replaces a document, which expires after `ttl_ms`; None means never."""
        with self._lock:
            ends = inf if ttl_ms is None else self._clock() + ttl_ms / 1000
            self._documents[name] = Document(body, ends)

    def delete(self, name: str, doing: str) -> None:
        """Removes a document, if it exists."""
        with self._lock:
            self._documents.pop(name, None)

    def expiring(self, prefix: str, doing: str) -> dict[str, bytes]:
        """The documents that expire and whose names begin with a prefix, by the rest of their names, in order."""
        found = ((name, each) for name, each in self.all().items() if name.startswith(prefix) and not isinf(each.ends))
        return {name.removeprefix(prefix): each.body for name, each in found}

    def place(self, name: str) -> str:
        """The name of a document."""
        return name

    def ping(self) -> None:
        """Memory always answers."""

    def restore(self, documents: Mapping[str, Document]) -> None:
        """Replaces all documents, as a server that restarts may."""
        with self._lock:
            self._documents = dict(documents)

    def all(self) -> dict[str, Document]:
        """The documents that have not expired, in the order of their names."""
        with self._lock:
            now = self._clock()
            self._documents = {name: each for name, each in sorted(self._documents.items()) if now < each.ends}
            return dict(self._documents)
