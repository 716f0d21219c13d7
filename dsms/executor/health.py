"""Liveness and readiness of an executor over HTTP, which costs less than probes that start a process.

Neither depends on Kafka, Redis or the coordinator, because restarting an executor would not bring those back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: After this many seconds in one turn, which may include recovery, the main loop is considered hung.
HUNG_S = 900.0


@dataclass(frozen=True)
class Health:
    """The state that the process reports, and the seconds since its main loop last finished a turn.

    >>> Health("starting", 3.0).answer("/readyz")
    (503, 'starting')
    >>> Health("idle", 3.0).answer("/readyz"), Health("running", 1000.0).answer("/healthz")
    ((200, 'idle'), (503, 'the main loop does not respond'))
    """

    state: str
    since_turn_s: float

    def answer(self, path: str) -> tuple[int, str]:
        """The HTTP status and the text of the response."""
        if path not in ("/healthz", "/readyz"):
            return 404, "unknown path; available: /healthz, /readyz, /metrics"
        if self.since_turn_s > HUNG_S:
            return 503, "the main loop does not respond"
        return (503, self.state) if path == "/readyz" and self.state == "starting" else (200, self.state)


def serve_health(
    host: str, port: int, health: Callable[[], Health], metrics: Callable[[], bytes] = lambda: b""
) -> ThreadingHTTPServer:
    """A running server for the probes and for `metrics`, in Prometheus' format. Its threads end with the process or
    with `shutdown`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = (200, "") if self.path == "/metrics" else health().answer(self.path)
            body = metrics() if self.path == "/metrics" else f"{text}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Probes are not logged."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
