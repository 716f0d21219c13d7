"""A proxy that speaks TLS with its clients, requires their certificates, and forwards their data in plain text."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from integration.self_signed import Certificate


@contextmanager
def tls_proxy(port: int, server: Certificate, authority: Certificate) -> Iterator[int]:
    """The port of a proxy to a server on this machine. It accepts only clients with a certificate of the authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(_listen(port, context), loop).result(20)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_end(listening), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


async def _listen(port: int, context: ssl.SSLContext) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.CancelledError):
        while part := await source.read(65_536):
            target.write(part)
            await target.drain()
    target.close()


async def _end(listening: asyncio.Server) -> None:
    listening.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
