"""The server for PostgreSQL clients: connections, authentication, and sessions."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
import struct
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import structlog

from dsms.coordinator.audit.audit_log import Audit
from dsms.coordinator.catalog.lookup import error_for
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.waiting_connections import WaitingConnections
from dsms.coordinator.oidc.tokens import TokenRefused
from dsms.coordinator.postgres import messages
from dsms.coordinator.postgres.messages import Malformed, Reader, message
from dsms.coordinator.postgres.parameter_types import Schemas, parameter_types
from dsms.coordinator.postgres.session import Session
from dsms.coordinator.postgres.session_settings import SessionSettings
from dsms.coordinator.postgres.session_values import SETTINGS
from dsms.coordinator.postgres.statements import (
    Executes,
    Outcome,
    SqlFailure,
    lookup_of,
    outcome_of,
    refused,
    typed,
)
from dsms.coordinator.postgres.subscription_cursors import Feed
from dsms.coordinator.postgres.subscriptions import SETTINGS as SUBSCRIPTIONS
from dsms.coordinator.postgres.subscriptions import Results, Subscription, subscribed
from dsms.coordinator.results.feed import Feeds
from dsms.coordinator.tables.joined_lookups import Answer, JoinedLookups, result_unless_waiting
from dsms.coordinator.tables.point_selects import Lookup
from dsms.model.principal import ANYBODY, Caller, Principal
from dsms.tables.select_budget import Cancelled
from operators.core.errors import ConfigError, DsmsError, ExternalError

log = structlog.get_logger()
#: The most clients at a time, and the most bytes of a message.
MAX_CLIENTS, LONGEST_MESSAGE = 100, 16 * 1024 * 1024
#: The seconds within which a client has to authenticate, and the most connections that have not done so yet.
LOGIN_S, MAX_ARRIVING = 10.0, 200
#: The delay in seconds of the refusal of a wrong token.
_PAUSE_S = 0.5
#: The threads for statements, of which each client runs one at a time, and for short calls.
_THREADS = MAX_CLIENTS + 8
#: How many bytes of messages may wait until the client has to see them.
_MOST_HELD = 64 * 1024
#: How many bytes of messages are read at once.
_PIECE = 64 * 1024
_NOBODY = Principal("", "reader")


class Served(Executes, Protocol):
    """The part of the coordinator that the clients use."""

    @property
    def audit(self) -> Audit:
        """The audit log, which gets an entry for each refused client."""
        ...

    @property
    def results(self) -> Results:
        """The results that clients subscribe to."""
        ...


class Cancels(Protocol):
    """Cancels a statement."""

    def set(self) -> None:
        """Cancels it; may be called several times."""
        ...


@dataclass(frozen=True)
class _Abandoned:
    """Ends one client's wait for the answer to a look-up. The call that answers it goes on, since others may share
    it."""

    answer: asyncio.Future[Answer]

    def set(self) -> None:
        """Ends the wait."""
        if not self.answer.done():
            self.answer.set_exception(Cancelled("the statement was cancelled"))


class ClientRejected(Exception):
    """A client is not admitted; the arguments are the SQLSTATE and the reason."""


@dataclass
class PostgresServer:
    """Serves clients. The password of a client is its token; without `access` everybody is admitted."""

    service: Served
    access: Access | None
    tls: ssl.SSLContext | None = None
    #: What cancels running statements, by the key that the client got to cancel them.
    _running: dict[tuple[int, int], Cancels] = field(default_factory=dict)
    #: The number of admitted clients that are connected.
    _clients: int = 0
    _arriving: WaitingConnections[asyncio.StreamWriter] = field(
        default_factory=lambda: WaitingConnections(MAX_ARRIVING, lambda writer: writer.transport.abort())
    )
    #: The feeds, which belong to the server's own event loop; they exist from the first subscription on.
    _feeds: Feeds | None = None
    _lookups: JoinedLookups = field(init=False)

    def __post_init__(self) -> None:
        self._lookups = JoinedLookups(self.service.look_up_all)

    def close(self) -> None:
        """Ends the threads of subscriptions."""
        if self._feeds is not None:
            self._feeds.close()

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection, from its first byte to its last."""
        self._arriving.add(writer)
        try:
            await self._served(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, TimeoutError):
            log.debug("a client of the Postgres protocol has gone")
        except Malformed as error:
            with contextlib.suppress(ConnectionError):
                await _say(writer, messages.fatal("08P01", str(error)))
        except ClientRejected as error:
            code, reason = error.args
            with contextlib.suppress(ConnectionError):
                await _say(writer, messages.fatal(code, reason))
        finally:
            self._arriving.remove(writer)
            writer.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(LOGIN_S):
            settings = await self._greeted(reader, writer)
            if settings is None:
                return
            caller = Caller(await self._let_in(reader, writer), uuid.uuid4().hex)
            self._arriving.remove(writer)
        if self._clients >= MAX_CLIENTS:
            raise ClientRejected("53300", f"there are {MAX_CLIENTS} clients already")
        self._clients += 1
        try:
            await self._in_session(reader, writer, settings, caller)
        finally:
            self._clients -= 1

    async def _in_session(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: dict[str, str], caller: Caller
    ) -> None:
        """Serves all requests of an admitted client."""
        key = (secrets.randbelow(2**31), secrets.randbelow(2**31))
        session = Session(
            partial(self._run, caller, key, SessionSettings()),
            _Outgoing(reader, writer),
            partial(self._followed, caller),
            partial(self._inferred, caller),
            partial(self._waiting, key),
        )
        known = SETTINGS | {"application_name": settings.get("application_name", "")}
        told = [message(b"S", messages.text(name) + messages.text(value)) for name, value in known.items()]
        await _say(writer, message(b"R", struct.pack("!i", 0)) + b"".join(told))
        await _say(writer, message(b"K", struct.pack("!ii", *key)))
        await session.ready()
        if isinstance(reader, _Reader):
            reader.when_ended = partial(self._cancel, key)
        try:
            async for kind, content in _messages(reader):
                if kind == b"X":
                    return
                await session.take(kind, content)
        finally:
            await session.close()

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, str] | None:
        """The settings that the client sends, after starting TLS if the client asks for it; None if the client only
        cancels a statement."""
        while True:
            content = Reader(await _content(reader))
            match content.number(4):
                case messages.SSL_REQUEST if self.tls is not None:
                    await _say(writer, b"S")
                    await writer.start_tls(self.tls)
                case messages.SSL_REQUEST | messages.GSS_REQUEST:
                    await _say(writer, b"N")
                case messages.CANCEL_REQUEST:
                    self._cancel((content.number(4), content.number(4)))
                    return None
                case messages.VERSION_3:
                    return dict(_settings(content))
                case _:
                    raise ClientRejected("0A000", "only version 3.0 of the protocol is supported")

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Principal:
        """The principal of the client, by the token that it sends as its password."""
        if self.access is None:
            return ANYBODY.principal
        await _say(writer, message(b"R", struct.pack("!i", 3)))
        if await reader.readexactly(1) != b"p":
            raise Malformed("a password was expected")
        token = Reader(await _content(reader)).text()
        try:
            principal = self.access.principal_of(token) or await self.access.issued(token)
        except TokenRefused as error:
            raise ClientRejected("28P01", error.message) from error
        except ExternalError as error:
            raise ClientRejected("57P03", error.message) from error
        if principal is None:
            await asyncio.to_thread(self.service.audit.refused, Caller(_NOBODY, ""), "Postgres", "unknown token", 0)
            await asyncio.sleep(_PAUSE_S)
            raise ClientRejected("28P01", "the password is not a known token; use an API token as the password")
        return principal

    def _cancel(self, key: tuple[int, int]) -> None:
        """Cancels the statement that runs for the client with this key, if any."""
        if (running := self._running.get(key)) is not None:
            running.set()

    async def _run(
        self, caller: Caller, key: tuple[int, int], settings: SessionSettings, sql: str
    ) -> Outcome | SqlFailure:
        try:
            if (lookup := lookup_of(sql, self.service, caller)) is not None:
                result = result_unless_waiting(await self._looked_up(lookup, key), settings.wait_s)
                if result is not None:
                    return typed(settings.noted(result))
            return await self._ran(caller, key, settings, sql)
        except DsmsError as error:
            return refused(error_for(caller.principal, error), sql)
        except Exception:
            log.exception("a statement has failed", sql=sql[:1_000])
            return SqlFailure("XX000", "internal error of the coordinator; see its log")
        finally:
            self._running.pop(key, None)

    async def _looked_up(self, lookup: Lookup, key: tuple[int, int]) -> Answer:
        answer = self._lookups.answer(lookup)
        self._running[key] = _Abandoned(answer)
        return await answer

    async def _ran(self, caller: Caller, key: tuple[int, int], settings: SessionSettings, sql: str) -> Outcome:
        if (answer := settings.answer(sql)) is not None:
            return typed(answer)
        cancelled = self._running[key] = threading.Event()
        try:
            waiting = replace(caller, wait_s=settings.wait_s)
            outcome = await asyncio.to_thread(outcome_of, sql, self.service, waiting, cancelled)
        finally:
            cancelled.set()
        settings.transaction(outcome.transaction)
        return replace(outcome, result=settings.noted(outcome.result))

    async def _inferred(self, caller: Caller, sql: str, given: tuple[int, ...]) -> tuple[int, ...]:
        """The types of the parameters of a statement."""

        def schemas() -> Schemas:
            return {found.name.lower(): found.schema for found in self.service.readable(caller)}

        return await asyncio.to_thread(parameter_types, sql, given, schemas)

    async def _followed(self, caller: Caller, wanted: Subscription) -> Feed:
        """The subscription to a result, then its changes; or an error."""
        try:
            caller.principal.check_read(wanted.name)
            result = await asyncio.to_thread(self.service.results.result, wanted.name)
            self._feeds = self._feeds or self.service.results.more_feeds(SUBSCRIPTIONS)
            subscription = await subscribed(wanted, result, self._feeds, caller.principal)
            async with aclosing(subscription.changes) as parts:
                yield subscription
                async for changes in parts:
                    yield changes
        except DsmsError as error:
            yield refused(error_for(caller.principal, error), "")

    @contextmanager
    def _waiting(self, key: tuple[int, int]) -> Iterator[threading.Event]:
        """Inside the block, the client can cancel by its key: then the event is set."""
        cancelled = self._running[key] = threading.Event()
        try:
            yield cancelled
        finally:
            self._running.pop(key, None)


@dataclass
class _Outgoing:
    """The messages to a client, which are sent together when the client has to see them, or when they are many."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    content: bytearray = field(default_factory=bytearray)

    async def add(self, content: bytes) -> None:
        """Adds messages."""
        self.content += content
        if len(self.content) > _MOST_HELD:
            await self.flush()

    async def flush(self) -> None:
        """Sends all messages."""
        content, self.content = self.content, bytearray()
        await _say(self.writer, bytes(content))

    def check(self) -> None:
        """Raises ConnectionError if the client has gone."""
        if isinstance(self.reader, _Reader) and self.reader.ended:
            raise ConnectionResetError("the client has closed its connection")


class _Reader(asyncio.StreamReader):
    """Knows whether the client has ended its messages, even while some of them are unread, and calls `when_ended`
    then."""

    ended = False
    when_ended: Callable[[], None] = staticmethod(lambda: None)

    def feed_eof(self) -> None:
        """Notes the end."""
        self._end()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        """Notes that the connection was lost."""
        self._end()
        super().set_exception(exc)

    def _end(self) -> None:
        self.ended = True
        self.when_ended()


def _settings(content: Reader) -> Iterator[tuple[str, str]]:
    while name := content.text():
        yield name, content.text()


async def _say(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    await writer.drain()


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes]]:
    """The kinds and contents of the messages of a session. All bytes that have arrived are read at once."""
    came = bytearray()
    while True:
        at = 0
        while len(came) - at >= 5:
            end = at + 1 + _size(came[at + 1 : at + 5])
            if end > len(came):
                break
            yield bytes(came[at : at + 1]), bytes(came[at + 5 : end])
            at = end
        del came[:at]
        came += await _more(reader)


async def _more(reader: asyncio.StreamReader) -> bytes:
    if not (piece := await reader.read(_PIECE)):
        raise asyncio.IncompleteReadError(b"", 1)
    return piece


def _size(field: bytes | bytearray) -> int:
    """The size of a message, including its length field, from the bytes of that field."""
    size = int.from_bytes(field, "big", signed=True)
    if not 4 <= size <= LONGEST_MESSAGE:
        raise Malformed(f"a message of {size} bytes is too short or too long")
    return size


async def _content(reader: asyncio.StreamReader) -> bytes:
    """The content of a message, whose kind, if it has one, was read before."""
    return await reader.readexactly(_size(await reader.readexactly(4)) - 4)


@contextmanager
def serving(server: PostgresServer, host: str, port: int) -> Iterator[int]:
    """Serves in a thread inside the block; yields the port, which is a free one for 0. Raises ConfigError if the server
    cannot listen on the port."""
    begun: list[int | OSError] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stopping = asyncio.Event()

    def connection() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(_Reader(limit=2**16, loop=loop), server.client, loop=loop)

    async def serve() -> None:
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, "postgres"))
        try:
            listening = await loop.create_server(connection, host, port)
        except OSError as error:
            begun.append(error)
            ready.set()
            return
        begun.append(listening.sockets[0].getsockname()[1])
        ready.set()
        await stopping.wait()
        listening.close()  # the end of the loop cancels the sessions

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run, name="postgres", daemon=True)
    thread.start()
    ready.wait()
    if isinstance(begun[0], OSError):
        thread.join()
        raise ConfigError(f"cannot listen on {host}:{port}: {begun[0].strerror}", hint="choose another --postgres-port")
    try:
        yield begun[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        server.close()
