"""Connections of clients that do not complete their requests: they are closed, and do not delay other clients."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from fastapi import FastAPI, Request

from dsms.coordinator.http import timed_connections
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"


def echo() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def _(request: Request) -> int:
        return len(await request.body())

    return app


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_connections, "HEAD_S", 0.3)
    monkeypatch.setattr(timed_connections, "BODY_S", 0.3)


@pytest.fixture
def url() -> Iterator[str]:
    with serving(create_app(FakeService(), SchemaRegistry(lambda _: None))) as address:
        yield address


def connected(url: str) -> socket.socket:
    port = int(url.rsplit(":", 1)[1])
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("begun", [b"", b"G", HEAD, HEAD + b"\r\n" + HEAD])
def test_a_connection_without_a_whole_head_ends(soon: None, url: str, begun: bytes) -> None:
    with connected(url) as connection:
        connection.sendall(begun)
        while b"HTTP" in begun and begun.count(b"\r\n\r\n") and connection.recv(4096):
            pass
        assert begun.count(b"\r\n\r\n") or closed(connection)


def test_single_bytes_do_not_extend_the_deadline(soon: None, url: str) -> None:
    with connected(url) as connection:
        connection.settimeout(0.05)
        for _ in range(100):
            connection.sendall(b"X")
            with contextlib.suppress(TimeoutError):
                assert closed(connection)
                return
        raise AssertionError("the connection is still open")


def test_stalled_body_ends_the_connection_and_slow_body_does_not(soon: None) -> None:
    with serving(echo()) as url:
        with connected(url) as stopped:
            stopped.sendall(POST + b"[1,")
            assert closed(stopped)
        with connected(url) as whole:
            for piece in (POST, b"[1,2,", b"3,44]"):
                whole.sendall(piece)
            assert whole.recv(4096).startswith(b"HTTP/1.1 200")


def test_many_silent_connections_hold_up_nobody(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of them are closed, long before their timeout."""
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(url)) for _ in range(timed_connections.MAX_ARRIVING + 20)]
        for connection in silent:
            connection.sendall(b"GET / HT")
        assert httpx.get(f"{url}/healthz", trust_env=False, timeout=5).status_code == 200
        assert closed(silent[0])


@pytest.mark.parametrize("probe", ["healthz", "readyz"])
def test_probes_do_not_wait_for_statements(url: str, probe: str) -> None:
    body = b'{"sql": "SELECT forever"}'
    head = b"POST /v1/statements HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    many = 60  # more than the threads that the application has for blocking calls
    with ExitStack() as stack:
        for _ in range(many):
            stack.enter_context(connected(url)).sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        assert httpx.get(f"{url}/{probe}", trust_env=False, timeout=5).status_code in (200, 503)


def test_a_request_with_two_lengths_is_refused_and_ends_the_connection(url: str) -> None:
    """For a proxy that uses the other length, the rest of the body would be another request."""
    head = b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    smuggled = b"0\r\n\r\nGET /v1/queries HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(url) as connection:
        connection.sendall(head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled)
        answers = b""
        while piece := connection.recv(65536):
            answers += piece
    assert answers.startswith(b"HTTP/1.1 400") and answers.count(b"HTTP/1.1 ") == 1
    assert b"not both" in answers
