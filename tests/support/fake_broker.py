"""A Kafka broker that knows few requests, and answers none on a connection on which it has become silent."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

#: The requests that the broker knows, each with its response and the only version: one without fields by tag.
_KNOWN = ((ApiVersionsRequest, ApiVersionsResponse, 0), (MetadataRequest, MetadataResponse, 5),
          (FindCoordinatorRequest, FindCoordinatorResponse, 2))  # fmt: skip


@dataclass
class FakeBroker:
    """The only broker of its cluster."""

    server: socket.socket
    #: The kind of request that the broker will not answer once; the connection on which it comes stays silent.
    silent: Any = None
    #: The requests so far, by kind.
    asked: Counter[Any] = field(default_factory=Counter)
    _connections: list[socket.socket] = field(default_factory=list)

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.server.getsockname()[1]}"

    def serve(self) -> None:
        """Accepts connections until the server is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                self._connections.append(connection)
                threading.Thread(target=self._answer_all, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Closes all sockets."""
        for each in (self.server, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _answer_all(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while frame := _frame(connection):
                answer = self._answer(frame)
                if answer is None:
                    connection.recv(1)  # until the client closes the connection
                    return
                connection.sendall(len(answer).to_bytes(4, "big") + answer)

    def _answer(self, frame: bytes) -> bytes | None:
        key, version, correlation_id = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big"), frame[4:8]
        kind, response = next((kind, answer) for kind, answer, _ in _KNOWN if key == kind.API_KEY)
        self.asked[kind] += 1
        if kind is self.silent:
            self.silent = None
            return None
        return correlation_id + bytes(response(**self._fields(response)).encode(version=version))

    def _fields(self, response: Any) -> dict[str, Any]:
        port = self.server.getsockname()[1]
        if response is ApiVersionsResponse:
            kind = ApiVersionsResponse.ApiVersion
            known = [kind(api_key=known.API_KEY, min_version=at, max_version=at) for known, _, at in _KNOWN]
            return {"error_code": 0, "api_keys": known}
        if response is MetadataResponse:
            broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
            return {"throttle_time_ms": 0, "brokers": [broker], "cluster_id": "c", "controller_id": 1, "topics": []}
        return {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "node_id": 1, "host": "h", "port": port}


def _frame(connection: socket.socket) -> bytes:
    """The next request, without its size; empty at the end."""
    size = connection.recv(4, socket.MSG_WAITALL)
    return connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL) if len(size) == 4 else b""


@contextmanager
def fake_broker() -> Iterator[FakeBroker]:
    """A running broker."""
    broker = FakeBroker(socket.create_server(("127.0.0.1", 0)))
    threading.Thread(target=broker.serve, daemon=True).start()
    try:
        yield broker
    finally:
        broker.close()
