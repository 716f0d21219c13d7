"""A proxy that cuts each connection after some bytes of the answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlsplit


@dataclass
class Cutting:
    """The URL of the proxy, and the number of connections that it has cut."""

    url: str
    cuts: int = 0
    threads: list[threading.Thread] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)


@contextmanager
def cutting(url: str, seed: int, most_bytes: int) -> Iterator[Cutting]:
    """A proxy to `url` that cuts each connection after 1 to `most_bytes` bytes of answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    cutting, chance = Cutting(f"http://127.0.0.1:{listener.getsockname()[1]}"), Random(seed)
    accepting = threading.Thread(target=_accept, args=(listener, url, chance, most_bytes, cutting))
    accepting.start()
    try:
        yield cutting
    finally:
        for open_socket in [listener, *cutting.sockets]:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in [accepting, *cutting.threads]:
            thread.join(20)


def _accept(listener: socket.socket, url: str, chance: Random, most_bytes: int, cutting: Cutting) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            thread = threading.Thread(target=_pass, args=(client, url, chance.randint(1, most_bytes), cutting))
            cutting.threads.append(thread)
            thread.start()


def _pass(client: socket.socket, url: str, left: int, cutting: Cutting) -> None:
    address = urlsplit(url)
    with client, socket.create_connection((address.hostname, address.port), 20) as server, suppress(OSError):
        cutting.sockets.append(server)
        server.sendall(client.recv(65_536))
        while left > 0 and (part := server.recv(left)):
            client.sendall(part)
            left -= len(part)
        if left == 0:
            cutting.cuts += 1
