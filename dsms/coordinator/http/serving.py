"""Serving an application over HTTP until an event ends it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from operators.core.errors import ConfigError

#: How long open responses, such as result streams, may take to end.
_GRACE_S = 5
_POLL_S = 0.05


@dataclass(frozen=True)
class Address:
    """Where to listen, and the certificate and key of HTTPS.

    >>> Address("127.0.0.1", 8080, Path("tls.crt"), None)
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: a certificate and a key belong together; give --tls-cert and --tls-key
    """

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("a certificate and a key belong together", hint="give --tls-cert and --tls-key")


def serve(app: Any, address: Address, *until: threading.Event) -> None:
    """Serves in this thread until one of the events is set or a signal arrives, which is raised again at the end."""
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=address.host,
            port=address.port,
            log_level="warning",
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.key,
        )
    )
    threading.Thread(target=_end_after, args=(server, *until), name="end-of-serving", daemon=True).start()
    server.run()


def _end_after(server: uvicorn.Server, first: threading.Event, *others: threading.Event) -> None:
    while not first.wait(_POLL_S) and not any(event.is_set() for event in others):
        pass
    server.should_exit = True
