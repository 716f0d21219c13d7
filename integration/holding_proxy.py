"""A proxy that knows Kafka's frames. It can hold one request, cut the connection of its client, and send the request to
the broker later, like a network that delivers late."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

#: Keys of requests in Kafka's protocol.
PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26
_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request in Kafka's wire format, without its size."""

    body: bytes

    @property
    def key(self) -> int:
        """The API key, which is the kind of the request."""
        return int.from_bytes(self.body[:2], "big")

    def matches(self, key: int, transactional_id: str) -> bool:
        """Whether the request has the API key and, if one is given, the transactional id. The id is preceded by its
        size or, in later versions of the protocol, by its size plus one."""
        named, size = transactional_id.encode(), len(transactional_id)
        return self.key == key and (not named or any(bytes([n]) + named in self.body for n in (size, size + 1)))


@dataclass
class _Held:
    """A request that the broker has not received yet, and the connection on which it will."""

    request: Request
    server: socket.socket


@dataclass
class HoldingProxy:
    """A proxy between clients, which connect to `port`, and a broker at `server_port`."""

    port: int
    server_port: int
    #: All requests received so far, in order.
    seen: list[Request] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _hold: tuple[int, str] | None = None
    _held: _Held | None = None
    _before: list[tuple[int, str, Callable[[], object]]] = field(default_factory=list)
    _sockets: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def hold(self, key: int, transactional_id: str = "") -> None:
        """Holds the next request with the API key and, if one is given, the transactional id, and cuts the connection
        of its client."""
        self._hold = key, transactional_id

    def forget(self) -> None:
        """Drops all orders of `hold` and `before`, and the held request."""
        with self._lock:
            self._hold, self._held, self._before = None, None, []

    @property
    def holds(self) -> bool:
        """Whether a request is held."""
        return self._held is not None

    def release(self) -> bytes:
        """Sends the held request to the broker, waits for the answer and returns its body."""
        held, self._held = self._held, None
        assert held is not None, "no request was held"
        _send(held.server, held.request.body)
        answer = _frame(held.server)
        assert answer is not None, "the broker has closed the connection"
        held.server.close()
        return answer[4:]

    def before(self, key: int, number: int, act: Callable[[], object], transactional_id: str = "") -> None:
        """Calls `act` just before the broker gets a request. Of the requests received from now on with the API key and,
        if one is given, the transactional id, it is the one with this number (0: the next)."""
        of = transactional_id
        with self._lock:
            self._before += [(key, of, lambda: None)] * number + [(key, of, act)]

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port), _DEADLINE_S)
                server.settimeout(None)
                self._sockets += [client, server]
                self._start(self._requests, client, server)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        """Passes requests on. Another thread passes the answers on, until the connection is cut."""
        self._start(_answers, server, client)
        with suppress(OSError):
            while (body := _frame(client)) is not None:
                request = Request(body)
                self.seen.append(request)
                if self._hold is not None and request.matches(*self._hold):
                    self._hold, self._held = None, _Held(request, self._again(client, server))
                    return
                self._act(request)
                _send(server, body)
        _end(client, server)

    def _again(self, client: socket.socket, server: socket.socket) -> socket.socket:
        """Cuts a client's connection; the held request goes to the broker on another one."""
        _end(client, server)
        other = socket.create_connection(("127.0.0.1", self.server_port), _DEADLINE_S)
        self._sockets.append(other)
        return other

    def _act(self, request: Request) -> None:
        with self._lock:
            place = next((at for at, (key, of, _) in enumerate(self._before) if request.matches(key, of)), None)
            if place is not None:
                *_, act = self._before.pop(place)
                act()


def _answers(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while part := server.recv(65_536):
            client.sendall(part)
    _end(client, server)


def _frame(source: socket.socket) -> bytes | None:
    """The next frame; None at the end."""
    size = _exactly(source, 4)
    return None if size is None else _exactly(source, struct.unpack(">i", size)[0])


def _exactly(source: socket.socket, count: int) -> bytes | None:
    got = bytearray()
    while len(got) < count:
        if not (part := source.recv(count - len(got))):
            return None
        got += part
    return bytes(got)


def _send(target: socket.socket, body: bytes) -> None:
    target.sendall(struct.pack(">i", len(body)) + body)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@contextmanager
def holding(port: int, server_port: int) -> Iterator[HoldingProxy]:
    """A proxy that runs in separate threads while the block runs."""
    listener = socket.create_server(("127.0.0.1", port))
    proxy = HoldingProxy(port, server_port)
    accepting = threading.Thread(target=proxy._accept, args=(listener,), daemon=True)
    accepting.start()
    try:
        yield proxy
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        _end(*proxy._sockets)
        for thread in [accepting, *proxy._threads]:
            thread.join(_DEADLINE_S)
