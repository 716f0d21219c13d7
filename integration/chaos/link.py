"""A TCP proxy to a server: its connections can be cut, or silenced as if the network swallowed every packet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_PIECE = 256 * 1024


@dataclass
class Link:
    """What passes between clients, which connect to `port`, and a server at `server_port`."""

    port: int
    server_port: int
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _cut: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        """Ends all connections, and each new one at once."""
        self._call(self._cut_all)

    def silence(self) -> None:
        """Passes nothing on; connections stay, and nobody is told."""
        self._call(self._open.clear)

    def heal(self) -> None:
        """Passes on what waits, and accepts connections."""
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
        self._cut = False
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if not self._cut:
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
                ends = {writer, server_writer}
                self._writers |= ends
                passing = [self._pass(reader, server_writer, ends), self._pass(server_reader, writer, ends)]
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
        for end in ends:  # one end of a connection that is gone ends the other
            end.transport.abort()


@contextmanager
def linked(port: int, server_port: int) -> Iterator[Link]:
    """A link in a thread of its own, while the block runs."""
    link = Link(port, server_port)
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
