"""Serves an application over HTTP until an event ends it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dsms.coordinator.http.guard import OPEN
from dsms.coordinator.http.timed_connections import timed_connections
from operators.core.errors import ConfigError

#: How long open responses, such as result streams, may take to end.
_GRACE_S = 5
_POLL_S = 0.05


@dataclass(frozen=True)
class Address:
    """Where to listen, and the certificate and key of HTTPS. With `client_authority`, only clients with a certificate
    signed by that authority can connect. Probes have no certificate, so they have a port of their own, without TLS.

    >>> Address("127.0.0.1", 8080, Path("tls.crt"), None)
    Traceback (most recent call last):
    ...
    operators.core.errors.ConfigError: a certificate and a key belong together; give --tls-cert and --tls-key
    """

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None
    probe_port: int | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("a certificate and a key belong together", hint="give --tls-cert and --tls-key")
        if self.client_authority and not self.certificate:
            raise ConfigError("client certificates need TLS", hint="give --tls-cert and --tls-key, too")

    def tls(self) -> ssl.SSLContext | None:
        """TLS with the same certificates, for another protocol on another port; None without a certificate."""
        if self.certificate is None or self.key is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_authority is not None:
                context.load_verify_locations(self.client_authority)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            raise ConfigError(f'cannot use the certificates in "{self.certificate}": {error}') from error
        return context

    def config(self, app: Any) -> uvicorn.Config:
        """The settings of a server for the application. Raises ConfigError if the certificates cannot be used."""
        config = uvicorn.Config(
            app,
            host=self.host,
            port=self.port,
            log_level="warning",
            http=timed_connections(),
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=self.certificate,
            ssl_keyfile=self.key,
            ssl_ca_certs=str(self.client_authority) if self.client_authority else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if self.client_authority else ssl.CERT_NONE,
        )
        try:
            config.load()
        except OSError as error:  # ssl.SSLError is a subclass
            files = ", ".join(f'"{file}"' for file in (self.certificate, self.key, self.client_authority) if file)
            raise ConfigError(f"cannot use the certificates in {files}: {error}") from error
        return config


def serve(app: Any, address: Address, *until: threading.Event) -> None:
    """Serves in this thread until one of the events is set or a signal arrives. Raises the signal again at the end."""
    server = uvicorn.Server(address.config(app))
    threading.Thread(target=_end_after, args=(server, *until), name="end-of-serving", daemon=True).start()
    with _probes(app, address):
        server.run()


@contextmanager
def _probes(app: ASGIApp, address: Address) -> Iterator[None]:
    """Serves only probes inside the block, in a thread and therefore without signal handlers."""
    if address.probe_port is None:
        yield
        return
    place = Address(address.host, address.probe_port)
    server = uvicorn.Server(place.config(only_probes(app)))
    serving = threading.Thread(target=server.run, name="probes")
    serving.start()
    try:
        yield
    finally:
        server.should_exit = True
        serving.join()


def only_probes(app: ASGIApp) -> ASGIApp:
    """The application restricted to the paths of probes, which reveal only whether the process works."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope.get("path") in OPEN:
            await app(scope, receive, send)
        else:
            await Response("have: /healthz, /readyz", 404)(scope, receive, send)

    return answered


def _end_after(server: uvicorn.Server, first: threading.Event, *others: threading.Event) -> None:
    while not first.wait(_POLL_S) and not any(event.is_set() for event in others):
        pass
    server.should_exit = True
