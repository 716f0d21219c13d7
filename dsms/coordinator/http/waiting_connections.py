"""Connections whose clients have not yet sent a complete request or sign-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_C = TypeVar("_C")


class WaitingConnections(Generic[_C]):
    """Keeps at most `most` waiting connections: one more ends the connection that has waited longest. So a client that
    sends its request at once is served, however many silent connections are open.

    >>> ended = []
    >>> waiting = WaitingConnections(2, ended.append)
    >>> for name in ("silent", "quick", "other"):
    ...     waiting.add(name)
    >>> waiting.remove("quick")
    >>> waiting.add("last"), ended
    (None, ['silent'])
    """

    def __init__(self, most: int, end: Callable[[_C], None]) -> None:
        self._most, self._end = most, end
        self._waiting: dict[_C, None] = {}

    def __contains__(self, connection: object) -> bool:
        return connection in self._waiting

    def add(self, connection: _C) -> None:
        """Adds a connection that was opened, or whose next request is awaited."""
        self._waiting[connection] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            self.remove(oldest)
            self._end(oldest)

    def remove(self, connection: _C) -> None:
        """Removes a connection that is served or has ended."""
        self._waiting.pop(connection, None)
