"""Follows a result over unreliable connections: the position to resume from, and the pauses before reconnecting."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dsms.client import calls
from dsms.client.calls import Call
from dsms.client.documents import Change
from dsms.client.errors import ApiError, NotFound, Unavailable, unreachable

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class _Line(msgspec.Struct):
    event: str | None = None
    columns: list[str] = []
    types: list[str] = []
    token: str | None = None
    reason: str | None = None
    message: str = ""


class ResultDropped(NotFound):
    """The followed result was dropped."""


class Feed:
    """Turns received bytes into changes and keeps the position of the reader. After a lost connection it resumes after
    the last complete line, so that each change is given once.

    >>> feed = Feed("hot")
    >>> [change.row for change in feed.take(
    ...     b'{"event":"start","name":"hot","columns":["t"],"key":[],"token":"o3:0"}\\n'
    ...     b'{"op":"+","row":{"t":105},"ts":2,"partition":0,"offset":0,"token":"o3:1"}\\n{"op":"+","ro'
    ... )]
    [{'t': 105}]
    >>> feed.request().params
    {'from': 'earliest', 'follow': 'true', 'after': 'o3:1'}
    """

    def __init__(
        self,
        name: str,
        after: str | None = None,
        start: str = "earliest",
        *,
        follow: bool = True,
        patience_s: float = 60.0,
    ) -> None:
        """Reconnecting is tried for `patience_s` seconds while nothing is received."""
        self._name, self._start, self._follow, self._patience_s = name, start, follow, patience_s
        self.token = after
        self.ended = False
        #: The columns of the result and their SQL types, once the server has answered.
        self.columns: list[str] = []
        self.types: list[str] = []
        self._pause_s, self._waited_s = _FIRST_PAUSE_S, 0.0
        self._partial_line = b""

    def request(self) -> Call[None]:
        """The request for a new connection."""
        self._partial_line = b""
        return calls.changes(self._name, self.token, self._start, follow=self._follow)

    def take(self, part: bytes) -> Iterator[Change]:
        """Takes a part of the body and yields the changes whose lines are then complete. Raises ResultDropped after the
        last change of a result that was dropped."""
        *lines, self._partial_line = (self._partial_line + part).split(b"\n")
        return (change for line in lines if line and (change := self._line(line)) is not None)

    def batches(self, part: bytes) -> Iterator[list[Change]]:
        """The changes of `take` as one list, or nothing if there are none. If the result was dropped, the changes
        before that are given before ResultDropped is raised."""
        changes: list[Change] = []
        try:
            changes.extend(self.take(part))
        finally:
            if changes:
                yield changes

    def _line(self, text: bytes) -> Change | None:
        line = msgspec.json.decode(text, type=_Line)
        if line.event is None:
            change = msgspec.json.decode(text, type=Change)
            self._advanced(change.token)
            return change
        if line.event == "start":
            self.columns, self.types = line.columns, line.types
        if line.event == "end" and line.reason == "dropped":
            raise ResultDropped(line.message)
        self.ended = line.event == "end" and line.reason == "end"
        if line.reason != "failed":
            self._advanced(line.token)
        return None

    def pause_after(self, url: str, reason: object) -> float:
        """The pause in seconds between a lost connection and the next one. Raises Unavailable when the pauses add up to
        more than `patience_s`; raises the reason at once if trying again cannot help."""
        if self._waited_s >= self._patience_s or (isinstance(reason, Unavailable) and not reason.retryable):
            raise reason if isinstance(reason, ApiError) else unreachable(url, reason)
        asked = reason.retry_after_s if isinstance(reason, Unavailable) else None
        pause_s = max(self._pause_s, asked or 0.0)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._waited_s += pause_s
        return pause_s

    def _advanced(self, token: str | None) -> None:
        self.token = token or self.token
        self._pause_s, self._waited_s = _FIRST_PAUSE_S, 0.0
