"""One session of a client: answers the messages that the client sends.

Statements run one after the other, in a thread; the session reads the next message when a statement has ended. Like
PostgreSQL, it skips the messages between an error of the extended protocol and the next Sync.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from threading import Event
from typing import Protocol

from dsms.coordinator.postgres import messages
from dsms.coordinator.postgres.cursors import Cursor, CursorFailure, Cursors, without_moving
from dsms.coordinator.postgres.literals import literal, null_of
from dsms.coordinator.postgres.messages import Field, Malformed, Reader, message
from dsms.coordinator.postgres.parameters import (
    Template,
    filled,
    parameters_in,
    statements_in,
    template_of,
    without_comments,
)
from dsms.coordinator.postgres.statements import Outcome, SqlFailure, described_by, gives_rows, refused
from dsms.coordinator.postgres.subscription_cursors import Feed, SubscriptionCursors
from dsms.coordinator.postgres.subscriptions import Subscribed, Subscription, copy_line, subscription_of
from dsms.coordinator.postgres.values import Unwritable, writer_of
from dsms.coordinator.postgres.wire_types import TEXT, Type
from dsms.model.statement_result import Row
from operators.core.errors import SqlError

#: Runs a statement; returns its outcome, or the error.
Run = Callable[[str], Awaitable[Outcome | SqlFailure]]
#: The types of the parameters of a statement, as OIDs, from those that the client has given.
Infer = Callable[[str, tuple[int, ...]], Awaitable[tuple[int, ...]]]
#: Follows a result: yields the subscription, then batches of changes, and the error if it fails.
Follow = Callable[[Subscription], Feed]
#: Notes inside a block that the client waits; the event is set when the client cancels.
Waiting = Callable[[], AbstractContextManager[Event]]
_ROWS_A_PIECE = 256
#: The beginning of a statement that may be about a cursor.
_ABOUT_CURSORS = re.compile(
    r"(?:\s|--[^\n]*\n|(?>/\*.*?\*/))*+(?:declare|fetch|move|close|discard)\b", re.IGNORECASE | re.DOTALL
)


class Outgoing(Protocol):
    """The messages to the client, which may wait until they are flushed."""

    async def add(self, content: bytes) -> None:
        """Adds messages."""
        ...

    async def flush(self) -> None:
        """Sends all messages."""
        ...

    def check(self) -> None:
        """Raises ConnectionError if the client has gone."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A statement with the types of its parameters, as OIDs in pg_type."""

    sql: str
    oids: tuple[int, ...] = ()

    @cached_property
    def gives_rows(self) -> bool:
        """Whether it may return rows."""
        return gives_rows(self.sql)

    @cached_property
    def _template(self) -> Template:
        return template_of(self.sql)

    def with_values(self, values: Sequence[bytes | None], formats: list[int]) -> str:
        """The statement with the values of its parameters. Raises Malformed if one is missing."""
        oids = [*self.oids, *[0] * (len(values) - len(self.oids))]
        binary = [bool(form) for form in _each(formats, len(values))]
        literals = [literal(value, oid, binary=form) for value, oid, form in zip(values, oids, binary, strict=True)]
        try:
            return self._template.filled(literals)
        except IndexError as error:
            raise Malformed(str(error)) from error


@dataclass
class Portal:
    """A statement that is ready to run, whether it may return rows, the formats (text or binary) that the client wants
    for its columns, and, once it has run, its outcome and the position in its rows."""

    name: str
    sql: str
    gives_rows: bool
    formats: list[int]
    cursor: Cursor | None = None


@dataclass
class Session:
    """The prepared statements, portals and state of a client, and the messages to it."""

    run: Run
    outgoing: Outgoing
    follow: Follow
    infer: Infer
    waiting: Waiting
    prepared: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    cursors: Cursors = field(default_factory=Cursors)
    state: bytes = messages.IDLE
    _skipping: bool = False
    _subscriptions: SubscriptionCursors = field(init=False)

    def __post_init__(self) -> None:
        self._subscriptions = SubscriptionCursors(self.follow)

    async def close(self) -> None:
        """Ends the subscriptions of the session."""
        await self._subscriptions.close()

    async def take(self, kind: bytes, content: bytes) -> None:
        """Answers one message. Raises Malformed if it is invalid."""
        if self._skipping and kind != b"S":
            return
        reader = Reader(content)
        match kind:
            case b"Q":
                await self._query(reader.text())
            case b"P":
                await self._parse(reader)
            case b"B":
                await self._bind(reader)
            case b"D":
                await self._describe(reader.taken(1), reader.text())
            case b"E":
                await self._execute(reader.text(), reader.number(4))
            case b"C":
                await self._close(reader.taken(1), reader.text())
            case b"S":
                self._skipping = False
                await self.ready()
            case b"H":
                await self.outgoing.flush()
            case _:
                await self._fail(
                    SqlFailure("0A000", f"messages of kind {kind.decode(errors='replace')!r} are not supported")
                )

    async def ready(self) -> None:
        """Tells the client that it may send the next statement."""
        await self.outgoing.add(message(b"Z", self.state))
        await self.outgoing.flush()

    async def _query(self, script: str) -> None:
        """The simple protocol: runs statements one by one until one fails."""
        statements, at = statements_in(script), 0
        if not statements:
            await self.outgoing.add(message(b"I"))
        for sql in statements:
            at = script.index(sql, at)
            if (wanted := _subscription(sql)) is not None:
                refusal = wanted if isinstance(wanted, SqlFailure) else await self._copied(wanted)
                if refusal is not None:
                    await self._send_error(refusal)
                    break
                at += len(sql)
                continue
            outcome = await self._ran_statement(sql)
            if isinstance(outcome, SqlFailure):
                await self._send_error(outcome.moved(at))
                break
            await self._answer(outcome)
            at += len(sql)
        await self.ready()

    async def _ran_statement(self, sql: str) -> Outcome | SqlFailure:
        """The outcome of a statement, which may be about a cursor."""
        if _ABOUT_CURSORS.match(sql) is None:
            return await self.run(sql)
        try:
            if (outcome := await self._subscribed(sql) or self.cursors.answer(sql)) is not None:
                return outcome
            if (declared := self.cursors.declared(sql, self._subscriptions.opened)) is None:
                return await self.run(sql)
            answered = await self.run(declared.query)
            if isinstance(answered, SqlFailure):
                return answered.moved(max(0, sql.find(declared.query)))
            held = declared.held or self.state != messages.IN_TRANSACTION
            return self.cursors.open(declared, answered, held=held)
        except CursorFailure as error:
            return error.failure

    async def _subscribed(self, sql: str) -> Outcome | None:
        """The outcome of a statement about a cursor over SUBSCRIBE; None for any other. FETCH ends when the client goes
        or cancels it."""
        with self.waiting() as cancelled:

            def check() -> None:
                self.outgoing.check()
                if cancelled.is_set():
                    raise CursorFailure("57014", "FETCH was cancelled")

            inside = self.state == messages.IN_TRANSACTION
            opened = await self._subscriptions.declared(sql, self.cursors.opened, inside=inside)
            return opened or await self._subscriptions.answer(sql, check)

    async def _copied(self, wanted: Subscription) -> SqlFailure | None:
        """Sends the changes of a result by COPY until they end. Returns the error if one has ended them early."""
        count, names = 0, list[str]()
        with self.waiting() as cancelled:
            async with aclosing(self.follow(wanted)) as parts:
                async for part in parts:
                    match part:
                        case SqlFailure():
                            return part
                        case Subscribed(schema=schema):
                            names = schema.names
                            await self.outgoing.add(messages.copy_out(2 + len(names)))
                        case changes:
                            count += len(changes)
                            lines = (message(b"d", copy_line(change, names)) for change in changes)
                            await self.outgoing.add(b"".join(lines))
                    await self.outgoing.flush()
                    self.outgoing.check()
                    if cancelled.is_set():
                        return SqlFailure("57014", "the subscription was cancelled")
        await self.outgoing.add(message(b"c") + message(b"C", messages.text(f"COPY {count}")))
        return None

    async def _answer(self, outcome: Outcome) -> None:
        await self._note(outcome)
        for said in outcome.result.notices:
            await self.outgoing.add(messages.notice(said))
        if outcome.types:
            await self.outgoing.add(_described(outcome, []))
            await self._rows(outcome, [], outcome.result.rows[:])
        await self.outgoing.add(message(b"C", messages.text(outcome.tag)))

    async def _note(self, outcome: Outcome) -> None:
        if outcome.transaction is False:
            self.cursors.end_transaction()
            await self._subscriptions.end_transaction()
        if outcome.transaction is not None:
            self.state = messages.IN_TRANSACTION if outcome.transaction else messages.IDLE

    async def _rows(self, outcome: Outcome, formats: list[int], listed: Sequence[Row]) -> None:
        forms = _each(formats, len(outcome.types))
        write = [writer_of(type_, binary=bool(form)) for type_, form in zip(outcome.types, forms, strict=True)]
        for at in range(0, len(listed), _ROWS_A_PIECE):
            piece = listed[at : at + _ROWS_A_PIECE]
            rows = (messages.data_row([one(value) for one, value in zip(write, row, strict=True)]) for row in piece)
            await self.outgoing.add(b"".join(rows))

    async def _parse(self, reader: Reader) -> None:
        name, sql = reader.text(), reader.text()
        oids = tuple(reader.number(4) for _ in range(reader.number(2)))
        if len(statements_in(sql)) > 1:
            await self._fail(
                SqlFailure(
                    "42601", "a prepared statement must be a single statement", "send a script as a simple query"
                )
            )
            return
        plain = sql.strip().rstrip(";")
        self.prepared[name] = Prepared(plain, await self.infer(plain, oids) if parameters_in(plain) else oids)
        await self.outgoing.add(message(b"1"))

    async def _bind(self, reader: Reader) -> None:
        portal, name = reader.text(), reader.text()
        formats = reader.numbers(2)
        values = [reader.value() for _ in range(reader.number(2))]
        wanted = reader.numbers(2)
        if (prepared := self.prepared.get(name)) is None:
            await self._fail(SqlFailure("26000", f'there is no prepared statement "{name}"'))
            return
        try:
            self.portals[portal] = Portal(portal, prepared.with_values(values, formats), prepared.gives_rows, wanted)
        except Malformed as error:
            await self._fail(SqlFailure("08P01", str(error)))
            return
        await self.outgoing.add(message(b"2"))

    async def _describe(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            await self._describe_statement(name)
        elif (cursor := self.cursors.columns(name) or self._subscriptions.columns(name)) is not None:
            await self._tell_columns(cursor, [])
        elif (portal := self.portals.get(name)) is None:
            await self._fail(SqlFailure("34000", f'there is no portal "{name}"'))
        elif not portal.gives_rows:
            await self.outgoing.add(message(b"n"))
        elif await self._ran(portal):
            await self._tell_columns(portal.cursor.outcome if portal.cursor else None, portal.formats)

    async def _describe_statement(self, name: str) -> None:
        """Sends the types of the parameters, and the columns of the statement when all parameters are NULL."""
        if (prepared := self.prepared.get(name)) is None:
            await self._fail(SqlFailure("26000", f'there is no prepared statement "{name}"'))
            return
        oids = [oid or TEXT.oid for oid in prepared.oids]
        content = len(oids).to_bytes(2, "big") + b"".join(oid.to_bytes(4, "big") for oid in oids)
        await self.outgoing.add(message(b"t", content))
        if (fetched := self._subscriptions.described(prepared.sql)) is not None:
            await self._tell_columns(fetched, [])
            return
        described = without_moving(prepared.sql) or described_by(filled(prepared.sql, list(map(null_of, oids))))
        if described is None:
            await self.outgoing.add(message(b"n"))
            return
        outcome = await self._ran_statement(described)
        if isinstance(outcome, SqlFailure):
            await self._fail(outcome)
        else:
            await self._tell_columns(outcome, [])

    async def _tell_columns(self, outcome: Outcome | None, formats: list[int]) -> None:
        if outcome is None or not outcome.types:
            await self.outgoing.add(message(b"n"))
        else:
            await self.outgoing.add(_described(outcome, formats))

    async def _ran(self, portal: Portal) -> bool:
        """Runs the statement of a portal unless it has run already. Returns whether there is an outcome."""
        if portal.cursor is None:
            outcome = await self._ran_statement(portal.sql)
            if isinstance(outcome, SqlFailure):
                await self._fail(outcome)
                return False
            await self._note(outcome)
            portal.cursor = Cursor(outcome, outcome.result.rows[:] if outcome.types else [])
            if portal.name:
                self.cursors.of_portals[portal.name] = portal.cursor
        return True

    async def _execute(self, name: str, most: int) -> None:
        if (portal := self.portals.get(name)) is None:
            await self._fail(SqlFailure("34000", f'there is no portal "{name}"'))
            return
        if not portal.sql.strip():
            await self.outgoing.add(message(b"I"))
            return
        if not await self._ran(portal):
            return
        cursor = portal.cursor
        assert cursor is not None
        for said in cursor.outcome.result.notices if not cursor.at else ():
            await self.outgoing.add(messages.notice(said))
        rows = cursor.moved("forward", most if most > 0 else None)
        try:
            await self._rows(cursor.outcome, portal.formats, rows)
        except Unwritable as error:
            await self._fail(SqlFailure("0A000", str(error)))
            return
        done = message(b"C", messages.text(cursor.outcome.tag))
        await self.outgoing.add(message(b"s") if cursor.at < len(cursor.rows) else done)

    async def _close(self, kind: bytes, name: str) -> None:
        if kind == b"S":
            self.prepared.pop(name, None)
        else:
            self.portals.pop(name, None)
            self.cursors.of_portals.pop(name, None)
        await self.outgoing.add(message(b"3"))

    async def _fail(self, why: SqlFailure) -> None:
        """Sends an error of the extended protocol at once, since a client may wait for it before it sends Sync. The
        messages that follow are skipped up to the next Sync."""
        self._skipping = True
        await self._send_error(why)
        await self.outgoing.flush()

    async def _send_error(self, why: SqlFailure) -> None:
        await self.outgoing.add(messages.failure(why.code, why.reason, why.hint, why.position))


def _subscription(sql: str) -> Subscription | SqlFailure | None:
    try:
        return subscription_of(without_comments(sql))
    except SqlError as error:
        return refused(error, sql)


def _described(outcome: Outcome, formats: list[int]) -> bytes:
    return _description(outcome.result.columns, outcome.types, tuple(_each(formats, len(outcome.types))))


@lru_cache(100)
def _description(columns: tuple[str, ...], types: tuple[Type, ...], forms: tuple[int, ...]) -> bytes:
    """The description of columns with these names, types and formats; the same statement has the same each time."""
    named = zip(columns, types, forms, strict=True)
    return messages.row_description([Field(name, *type_, bool(form)) for name, type_, form in named])


def _each(formats: list[int], count: int) -> list[int]:
    """The format of each of `count` values. No given format means text for all; a single one applies to all."""
    if len(formats) == 1:
        return formats * count
    if formats and len(formats) != count:
        raise Malformed(f"there are {len(formats)} formats for {count} values")
    return formats or [0] * count
