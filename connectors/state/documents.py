"""Small documents by name, some of which expire: what a store needs to keep the documents of a cluster."""

from __future__ import annotations

from typing import Protocol


class DocumentStore(Protocol):
    """The documents of one cluster, such as "catalog", "executor:NAME" or "report:FRAGMENT". The store does not read
    their content. `doing` says in the message of an error what the caller was doing. Raises ExternalError while the
    store is unavailable."""

    def get(self, name: str) -> bytes | None:
        """A document; None if it does not exist or has expired."""
        ...

    def set(self, name: str, body: bytes, doing: str, ttl_ms: int | None = None) -> None:
        """Replaces a document, which expires after `ttl_ms`; None means never."""
        ...

    def delete(self, name: str, doing: str) -> None:
        """Removes a document, if it exists."""
        ...

    def expiring(self, prefix: str, doing: str) -> dict[str, bytes]:
        """The documents that expire and whose names begin with a prefix, by the rest of their names, in order."""
        ...

    def place(self, name: str) -> str:
        """The location of a document, as alarms name it."""
        ...

    def ping(self) -> None:
        """Raises ExternalError unless the store answers."""
        ...
