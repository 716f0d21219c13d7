"""A real HTTP server in a thread of this process, on a free port."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from dsms.coordinator.http.timed_connections import timed_connections
from dsms.local.waiting import wait_until


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The URL at which the application is served while the block runs."""
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", ws="none", http=timed_connections())
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), 20, pause_s=0.01)
    assert server.started, "the server did not start"
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
