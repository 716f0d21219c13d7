"""A TCP proxy to a server. Its connections can be cut, or silenced like those of a network that drops every packet.
Requests of Kafka's transactions can arrive late, or twice, over other connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random

_PIECE = 256 * 1024
#: Produce, InitProducerId, AddPartitionsToTxn and EndTxn: the keys of the requests that may arrive late.
_OF_TRANSACTIONS = {0, 22, 24, 26}
#: The probabilities that such a request is delayed; arrives late, after its client's connection was cut; arrives twice.
_DELAYED, _LATE, _TWICE = 0.1, 0.15, 0.15
_LATEST_S = 4.0


@dataclass
class Link:
    """The proxy between clients, which connect to `port`, and a server at `server_port`."""

    port: int
    server_port: int
    #: Whether clients send frames of Kafka's protocol: only such requests can arrive late.
    framed: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _cut: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _chance: Random | None = None
    _pending_deliveries: set[asyncio.Task[None]] = field(default_factory=set)

    def cut(self) -> None:
        """Ends all connections, and each new one at once."""
        self._call(self._cut_all)

    def silence(self) -> None:
        """Passes nothing on; connections stay open, so that neither side notices."""
        self._call(self._open.clear)

    def deliver_late(self, chance: Random) -> None:
        """Delays some requests, and delivers others late or twice, over separate connections."""
        self._call(lambda: setattr(self, "_chance", chance))

    def heal(self) -> None:
        """Passes on what waits, and accepts connections again. Only requests under way still arrive late."""
        self._call(self._heal)

    def _call(self, act: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (act(), done.set()))
        assert done.wait(20)

    def _cut_all(self) -> None:
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()

    def _heal(self) -> None:
        self._cut, self._chance = False, None
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if not self._cut:
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
                ends = {writer, server_writer}
                self._writers |= ends
                requests = self._requests if self.framed else self._pass
                passing = [requests(reader, server_writer, ends), self._pass(server_reader, writer, ends)]
                await asyncio.gather(*passing)
                self._writers -= ends
        writer.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: set[asyncio.StreamWriter]
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(_PIECE):
                await self._open.wait()
                writer.write(piece)
                await writer.drain()
        _abort(ends)

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: set[asyncio.StreamWriter]
    ) -> None:
        """Passes requests on one by one, until one is to arrive late: that ends the connection."""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                request = size + await reader.readexactly(int.from_bytes(size, "big"))
                await self._open.wait()
                if await self._is_late(request):
                    break
                writer.write(request)
                await writer.drain()
        _abort(ends)

    async def _is_late(self, request: bytes) -> bool:
        """Whether a request is delivered over another connection instead of this one; some are delivered over both."""
        if self._chance is None or int.from_bytes(request[4:6], "big") not in _OF_TRANSACTIONS:
            return False
        drawn, after_s = self._chance.random(), self._chance.uniform(0, _LATEST_S)
        if drawn < _DELAYED:
            await asyncio.sleep(after_s)
        elif drawn < _DELAYED + _LATE + _TWICE:
            task = self._loop.create_task(self._deliver(request, after_s))
            self._pending_deliveries.add(task)
            task.add_done_callback(self._pending_deliveries.discard)
        return _DELAYED <= drawn < _DELAYED + _LATE

    async def _deliver(self, request: bytes, after_s: float) -> None:
        """Delivers a request over a separate connection, and discards the answer."""
        await asyncio.sleep(after_s)
        await self._open.wait()
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server_port)
            writer.write(request)
            await reader.readexactly(4)
            writer.close()


def _abort(ends: set[asyncio.StreamWriter]) -> None:
    """Closes both sides of a proxied connection."""
    for end in ends:
        end.transport.abort()


@contextmanager
def linked(port: int, server_port: int, *, framed: bool = False) -> Iterator[Link]:
    """A link in a thread of its own, while the block runs."""
    link = Link(port, server_port, framed)
    link._open.set()
    thread = threading.Thread(target=_serve, args=(link,), name=f"link-{port}", daemon=True)
    thread.start()
    link.heal()
    try:
        yield link
    finally:
        link._call(link._loop.stop)
        thread.join(20)


def _serve(link: Link) -> None:
    loop = link._loop
    server = loop.run_until_complete(asyncio.start_server(link._accept, "127.0.0.1", link.port))
    loop.run_forever()
    server.close()
    link._cut_all()
    loop.run_until_complete(_ended())
    loop.close()


async def _ended() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
