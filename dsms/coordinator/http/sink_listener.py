"""Serves results to the processes of sinks on a separate port of the loopback address, without TLS, so that neither a
name in a certificate nor a client certificate is needed. The port accepts only one random token, which only these
processes know and which has the role reader."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uvicorn

from dsms.coordinator.http.access import Access
from dsms.coordinator.http.serving import Address
from dsms.coordinator.results.feed import Feeds, FeedSettings
from dsms.coordinator.sinks.sink_process import ReaderAccess
from dsms.model.tokens import new_token

_LOOPBACK, _MANY = "127.0.0.1", 10_000


@dataclass(frozen=True)
class _Opened:
    access: ReaderAccess
    server: uvicorn.Server
    thread: threading.Thread
    feeds: Feeds


class SinkListener:
    """Serves from its first use until `close`. `make_app` returns the application for an access, with feeds of its
    own, because it is served by an event loop of its own."""

    def __init__(self, make_app: Callable[[Access, Feeds], Any], more_feeds: Callable[[FeedSettings], Feeds]) -> None:
        self._make_app, self._more_feeds = make_app, more_feeds
        self._opened: _Opened | None = None
        self._lock = threading.Lock()

    def access(self) -> ReaderAccess:
        """The URL and the token for the processes of sinks."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened.access

    def close(self) -> None:
        """Ends serving."""
        with self._lock:
            if self._opened is not None:
                self._opened.server.should_exit = True
                self._opened.thread.join()
                self._opened.feeds.close()

    def _open(self) -> _Opened:
        text, token = new_token("sinks", "reader", calls_per_second=float(_MANY), streams=_MANY)
        feeds = self._more_feeds(FeedSettings())
        listening = socket.create_server((_LOOPBACK, 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(Address(_LOOPBACK, port).config(self._make_app(Access((token,)), feeds)))
        thread = threading.Thread(target=server.run, args=([listening],), name="sinks", daemon=True)
        thread.start()
        return _Opened(ReaderAccess(f"http://{_LOOPBACK}:{port}", text), server, thread, feeds)
