"""Replaces the coordinator while all services are stopped for lack of disk space, and answers every call with the
reason.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

_RETRY_AFTER_S = "10"
_CALLER_TIMEOUT_S = 10.0
#: The most bytes of a body that are read. (Some callers do not read an answer before they have sent the whole body.)
_MAX_READ = 1 << 20


@contextmanager
def answering_unavailable(host: str, port: int, message: str, hint: str) -> Iterator[None]:
    """Answers calls of the REST API, in the format of that API, while the block runs: `/healthz` answers 200, `/readyz`
    and all other paths answer 503 with the reason. If another program has taken the port in the meantime, calls are not
    answered.
    """
    server: ThreadingHTTPServer | None = None
    with suppress(OSError):
        server = ThreadingHTTPServer((host, port), _handler(message, hint))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, name="unavailable", daemon=True).start()
    try:
        yield
    finally:
        if server is not None:
            server.shutdown()
            server.server_close()


def _handler(message: str, hint: str) -> type[BaseHTTPRequestHandler]:
    error = {"kind": "external", "message": message, "hint": hint, "line": None, "column": None}
    answers = {"/healthz": (200, {"status": "ok"}), "/readyz": (503, {"disk": f"{message}; {hint}"})}

    class Handler(BaseHTTPRequestHandler):
        timeout = _CALLER_TIMEOUT_S

        def answer(self) -> None:
            self.rfile.read(min(int(self.headers.get("Content-Length") or 0), _MAX_READ))
            status, document = answers.get(self.path, (503, {"error": error}))
            body = msgspec.json.encode(document)
            self.close_connection = True
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Retry-After", _RETRY_AFTER_S)
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 the server's names

        def log_message(self, *_: Any) -> None:
            """Logs nothing, because the disk is full."""

    return Handler
