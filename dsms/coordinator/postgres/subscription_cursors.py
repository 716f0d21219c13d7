"""Cursors over the changes of a result: DECLARE … CURSOR FOR SUBSCRIBE, FETCH and CLOSE.

A cursor reads the next piece of the feed only when FETCH asks for more than it has, so it keeps one piece in memory and
no thread. The rows have the instant of a change, its operation (`+`, `u` or `-`) and the columns of the result.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from dsms.coordinator.postgres.cursors import (
    CLOSE,
    DISCARD_ALL,
    NAME,
    CursorFailure,
    cursor_name,
    no_cursor,
    same_cursor,
)
from dsms.coordinator.postgres.parameters import without_comments
from dsms.coordinator.postgres.session_settings import seconds_of
from dsms.coordinator.postgres.statements import Outcome, SqlFailure
from dsms.coordinator.postgres.subscriptions import Change, Subscribed, Subscription, subscription_after
from dsms.coordinator.postgres.wire_types import BIGINT, TEXT, Type, type_of
from dsms.model.statement_result import Row, StatementResult
from dsms.model.types import type_sql
from operators.core.errors import SqlError, UserError

_DECLARE: Final = re.compile(
    rf"\s*declare\s+{NAME}\s+(?:(?:binary|insensitive|asensitive|no\s+scroll)\s+)*cursor\s+"
    r"(?:(?P<hold>with|without)\s+hold\s+)?for\s+(?=subscribe\b|tail\b)(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_FETCH: Final = re.compile(
    r"\s*fetch\s+(?:(?P<way>next|forward|prior|first|last|absolute|relative|backward)\b\s*)?"
    rf"(?:(?P<count>[+-]?\d{{1,9}}|all)\b\s*)?(?:(?:from|in)\s+)?{NAME}\s*"
    r"(?:with\s*\(\s*timeout\s*=?\s*'(?P<timeout>[^']*)'\s*\)\s*)?;?\s*",
    re.IGNORECASE,
)
#: The first columns of each row.
_FIRST: Final = {"dsms_ts": Type(BIGINT, 8), "dsms_op": TEXT}
#: The most cursors of a session, the most rows of one FETCH, and for how many seconds FETCH waits without a timeout.
_MOST_CURSORS, _MOST_ROWS, _WAIT_S = 10, 10_000, 1.0

#: Yields the subscription, then batches of changes, which are empty if there was no change for a while; or an error.
Feed = AsyncGenerator[Subscribed | list[Change] | SqlFailure, None]


@dataclass
class SubscriptionCursor:
    """An open subscription, and the rows that were read but not fetched. `held`: it stays open when the transaction
    ends."""

    feed: Feed
    subscribed: Subscribed
    held: bool
    rows: deque[Row] = field(default_factory=deque)
    _reading: asyncio.Task[Subscribed | list[Change] | SqlFailure | None] | None = None

    @property
    def no_rows(self) -> Outcome:
        """An outcome without rows that has the columns of the cursor."""
        schema = self.subscribed.schema
        types = (*_FIRST.values(), *(type_of(type_sql(field.type)) for field in schema))
        return Outcome(StatementResult("FETCH", "", (*_FIRST, *schema.names)), types)

    async def fetched(self, most: int | None, wait_s: float, check: Callable[[], object]) -> list[Row]:
        """The next rows: as many as wanted, or those that there are after this time. `most` None means all that are
        there, and at least one if one comes in time. `check` is called now and then, and may raise an error."""
        end = time.monotonic() + wait_s
        wanted = min(most or 1, _MOST_ROWS)
        while len(self.rows) < wanted and (left := end - time.monotonic()) > 0:
            await self._read(min(left, _WAIT_S))
            check()
        while most is None and len(self.rows) < _MOST_ROWS and await self._read(0):
            check()
        count = min(len(self.rows), _MOST_ROWS if most is None else wanted)
        return [self.rows.popleft() for _ in range(count)]

    async def _read(self, wait_s: float) -> bool:
        """Waits so long for the next batch. Returns whether there was one with changes. Raises CursorFailure if the
        subscription has failed or ended."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._next())
        done, _ = await asyncio.wait([self._reading], timeout=wait_s)
        if not done:
            return False
        part, self._reading = self._reading.result(), None
        if isinstance(part, list):
            self.rows += (self._row(change) for change in part)
            return bool(part)
        if isinstance(part, SqlFailure):
            raise CursorFailure(part.code, part.reason, part.hint)
        raise CursorFailure("55000", "the subscription has ended", "CLOSE the cursor and declare it again")

    async def _next(self) -> Subscribed | list[Change] | SqlFailure | None:
        return await anext(self.feed, None)

    def _row(self, change: Change) -> Row:
        values = change.get("row") or change.get("key") or {}
        return (change.get("ts"), change["op"], *map(values.get, self.subscribed.schema.names))

    async def close(self) -> None:
        """Ends the subscription."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        await self.feed.aclose()


@dataclass
class SubscriptionCursors:
    """The open cursors of a session over subscriptions. `follow` opens a feed."""

    follow: Callable[[Subscription], Feed]
    opened: dict[str, SubscriptionCursor] = field(default_factory=dict)

    async def declared(self, sql: str, others: Container[str], *, inside: bool) -> Outcome | None:
        """Opens the cursor of a DECLARE; None for any other statement. `others` are the names of other cursors;
        `inside`: the session is in a transaction. Raises CursorFailure."""
        if (found := _DECLARE.fullmatch(without_comments(sql))) is None:
            return None
        name, held = cursor_name(found["name"]), not inside or (found["hold"] or "").lower() == "with"
        if name in self.opened or name in others:
            raise same_cursor(name)
        if len(self.opened) >= _MOST_CURSORS:
            raise CursorFailure("53400", f"a session has at most {_MOST_CURSORS} cursors over SUBSCRIBE", "close some")
        await self._open(name, found["query"], held=held)
        return Outcome(StatementResult("DECLARE CURSOR", ""))

    async def answer(self, sql: str, check: Callable[[], object]) -> Outcome | None:
        """The outcome of FETCH and CLOSE of such a cursor; None for any other statement. Raises CursorFailure."""
        plain = without_comments(sql)
        if (found := _FETCH.fullmatch(plain)) is not None:
            if (cursor := self.opened.get(cursor_name(found["name"]))) is not None:
                return await self._fetched(cursor, found, check)
            if found["timeout"] is not None:
                raise no_cursor(cursor_name(found["name"]))
        if self.opened and DISCARD_ALL.fullmatch(plain):
            await self.close()
        if self.opened and (found := CLOSE.fullmatch(plain)):
            return await self._closed(found["name"])
        return None

    def columns(self, name: str) -> Outcome | None:
        """An outcome without rows that has the columns of a cursor; None for an unknown one."""
        cursor = self.opened.get(name)
        return None if cursor is None else cursor.no_rows

    def described(self, sql: str) -> Outcome | None:
        """An outcome without rows that has the columns of a FETCH; None for any other statement."""
        found = _FETCH.fullmatch(without_comments(sql)) if self.opened else None
        return None if found is None else self.columns(cursor_name(found["name"]))

    async def end_transaction(self) -> None:
        """Closes the cursors that are not held."""
        for name in [name for name, cursor in self.opened.items() if not cursor.held]:
            await self.opened.pop(name).close()

    async def close(self) -> None:
        """Closes all cursors."""
        while self.opened:
            await self.opened.popitem()[1].close()

    async def _open(self, name: str, query: str, *, held: bool) -> None:
        try:
            wanted = subscription_after(query)
        except SqlError as error:
            raise CursorFailure("42601", error.message, error.hint or None) from error
        feed = self.follow(wanted)
        first = await anext(feed)
        if not isinstance(first, Subscribed):
            assert isinstance(first, SqlFailure)
            raise CursorFailure(first.code, first.reason, first.hint)
        self.opened[name] = SubscriptionCursor(feed, first, held)

    async def _fetched(self, cursor: SubscriptionCursor, found: re.Match[str], check: Callable[[], object]) -> Outcome:
        try:
            wait_s = _WAIT_S if found["timeout"] is None else seconds_of(found["timeout"], "the timeout of FETCH")
        except UserError as error:
            raise CursorFailure("22023", error.message, error.hint or None) from error
        count = (found["count"] or "1").lower()
        if (found["way"] or "next").lower() not in ("next", "forward") or count.startswith("-"):
            raise CursorFailure("55000", "a cursor over SUBSCRIBE moves only forward")
        rows = await cursor.fetched(None if count == "all" else int(count), wait_s, check)
        empty = cursor.no_rows
        return replace(empty, result=replace(empty.result, rows=tuple(rows)))

    async def _closed(self, written: str) -> Outcome | None:
        if written.lower() == "all":
            await self.close()
            return None  # other cursors are closed, too
        if (cursor := self.opened.pop(cursor_name(written), None)) is None:
            return None
        await cursor.close()
        return Outcome(StatementResult("CLOSE CURSOR", ""))
