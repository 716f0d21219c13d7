"""Runs a coordinator process: alone, or as one of several candidates.

Until a candidate holds the lease, it answers that it does not lead. Then it creates the coordinator, which fences an
older one, and serves. A leader that can no longer be sure to lead ends its process at once, whatever it was doing, so
that none of its threads can still write. It is restarted as a new candidate.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from dsms.coordinator.election.leadership import Leadership
from dsms.coordinator.election.standby import standby_app
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.pages import HostNames
from dsms.coordinator.http.serving import Address, serve
from dsms.coordinator.http.sink_listener import SinkListener
from dsms.coordinator.postgres.server import PostgresServer, serving
from dsms.coordinator.service.coordinator import Coordinator
from dsms.telemetry.telemetry import Telemetry
from operators.core.errors import ExternalError

log = structlog.get_logger()
Make = Callable[[], Coordinator]
_RETRY_S = 1.0
_POLL_S = 0.1
_SWITCH_S = 0.0002


@dataclass(frozen=True)
class ServerSetup:
    """How to create a coordinator, where it listens and who may call it."""

    make: Make
    address: Address
    access: Access | None
    telemetry: Telemetry | None = None
    #: The port of the Postgres protocol; None: the protocol is not served.
    postgres_port: int | None = None
    #: The names by which clients call the server.
    hosts: HostNames = HostNames()
    #: Called again and again while the process works.
    progress: Callable[[], None] = lambda: None


def lead(setup: ServerSetup, coordinator: Coordinator, stopping: threading.Event, replaced: Callable[[], None]) -> None:
    """Serves and watches the cluster until `stopping` is set; `replaced` is called once a newer coordinator leads."""
    _favour_calls()
    watched = (stopping, replaced, setup.progress)
    watcher = threading.Thread(target=coordinator.watch, args=watched, name="watch")
    watcher.start()
    try:
        app = create_app(coordinator, coordinator.registry, setup.access, setup.telemetry, setup.hosts)
        with _postgres(setup, coordinator), _sinks(coordinator):
            serve(app, setup.address, stopping)
    finally:
        stopping.set()
        watcher.join()
        if setup.telemetry is not None:
            setup.telemetry.close()


@contextmanager
def _sinks(coordinator: Coordinator) -> Iterator[None]:
    """Runs the sinks of the catalog inside the block."""
    listener = SinkListener(
        lambda access, feeds: create_app(coordinator, coordinator.registry, access, feeds=feeds),
        coordinator.results.more_feeds,
    )
    coordinator.sink_runner.start(listener.access)
    try:
        yield
    finally:
        coordinator.sink_runner.stop()
        listener.close()


@contextmanager
def _postgres(setup: ServerSetup, coordinator: Coordinator) -> Iterator[None]:
    """Serves PostgreSQL clients inside the block, if the setup has a port for them."""
    if setup.postgres_port is None:
        yield
        return
    server = PostgresServer(coordinator, setup.access, setup.address.tls())
    with serving(server, setup.address.host, setup.postgres_port) as port:
        log.info("serves clients of PostgreSQL", port=port)
        yield


def _favour_calls() -> None:
    """Keeps short calls fast while a long read of a result runs: threads switch after a fifth of a millisecond, and
    garbage collections, which stop all threads, skip the objects that exist already."""
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    gc.freeze()


def lead_alone(setup: ServerSetup, stopping: threading.Event) -> None:
    """Leads without an election. A coordinator that is replaced reports so by `/readyz` and still answers reads."""
    setup.progress()
    coordinator = setup.make()
    coordinator.turn()
    lead(setup, coordinator, stopping, lambda: None)


def contend(setup: ServerSetup, leadership: Leadership, stopping: threading.Event) -> None:
    """Waits for the lease, leads, and gives the lease up at the end."""
    ended = threading.Event()
    election = threading.Thread(target=leadership.run, args=(ended,), name="election")
    election.start()
    try:
        coordinator = _elected(setup, leadership, stopping)
        if coordinator is not None:
            lead(setup, coordinator, stopping, lambda: end_at_once("a newer coordinator has taken over"))
    finally:
        ended.set()
        election.join()


def end_at_once(reason: str) -> None:
    """Ends the process of a leader that may no longer lead: no thread may finish what it was writing."""
    log.error("no longer leads: the process ends", reason=reason)
    os._exit(1)


def _elected(setup: ServerSetup, leadership: Leadership, stopping: threading.Event) -> Coordinator | None:
    """Waits until this candidate leads, and returns the coordinator. Until then it answers calls as a standby. Returns
    None if the process stops."""
    done = threading.Event()
    with ThreadPoolExecutor(1, "taking-over") as pool:
        made = pool.submit(_take_over, setup, leadership, stopping)
        made.add_done_callback(lambda _: done.set())
        serve(standby_app(lambda: _state(leadership)), setup.address, done, stopping)
        return made.result()


def _state(leadership: Leadership) -> str:
    if leadership.leading.is_set():
        return "this coordinator is taking over"
    return f'"{leadership.holder}" leads' if leadership.holder else "nobody leads"


def _take_over(setup: ServerSetup, leadership: Leadership, stopping: threading.Event) -> Coordinator | None:
    """Creates the coordinator when this candidate leads, and runs its first turn. Retries until the services that it
    needs answer. Returns None if the process stops."""
    while not stopping.is_set():
        setup.progress()
        if not leadership.leading.wait(_POLL_S):
            continue
        try:
            coordinator = setup.make()
            coordinator.turn()
            return coordinator
        except ExternalError as error:
            log.warning("cannot take over yet", reason=str(error))
            stopping.wait(_RETRY_S)
    return None
