"""Maintains the documents in Redis that executors read: a copy of the catalog, and the executor of each fragment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from connectors.alarms import Alarms
from connectors.state.store import AHEAD_MS
from dsms.coordinator.watcher.executors import ExecutorStatuses, living_executors
from dsms.model.catalog import Catalog, read_catalog
from dsms.placement.leases import ExecutorStatus, assign, read_assignments, renewed
from dsms.registration.placement import fragments_of
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: The names of the documents in alarms.
CATALOG_COPY, ASSIGNMENTS = "catalog copy in redis", "assignments in redis"


class SharedDocuments(ExecutorStatuses, Protocol):
    """Documents that coordinator and executors share; `ClusterState` keeps them in Redis. All of them may be lost."""

    def catalog(self) -> bytes | None:
        """The copy of the catalog."""
        ...

    def set_catalog(self, body: bytes) -> None:
        """Replaces the copy of the catalog."""
        ...

    def assignments(self) -> bytes | None:
        """The executor of each fragment."""
        ...

    def set_assignments(self, body: bytes) -> None:
        """Replaces the assignments."""
        ...


@dataclass(frozen=True)
class LeaderView:
    """The leading coordinator: the name of its cluster, its catalog, and whether the log says that it leads."""

    cluster: str
    catalog: Callable[[], Catalog]
    leads: Callable[[], bool]


class RedisDocuments:
    """Keeps the documents up to date. The copy of the catalog is replaced by an older version only if no newer
    coordinator can have written it."""

    def __init__(self, documents: SharedDocuments, leader: LeaderView, fragments: int, alarms: Alarms) -> None:
        self._documents, self._leader, self._fragments = documents, leader, fragments
        self._alarms = alarms
        self._restoring = threading.Lock()
        self._encoded: tuple[Catalog, bytes] | None = None
        #: The last copy that this process has written: its version is known to be older, without decoding it.
        self._written: bytes | None = None
        #: The greatest lease of each fragment that this process has seen.
        self._leases: dict[str, int] = {}

    def restore(self) -> Mapping[str, ExecutorStatus]:
        """Writes missing and outdated documents, and returns the living executors. Raises ExternalError while Redis is
        unavailable."""
        with self._restoring:
            catalog = self._leader.catalog()
            self._restore_catalog(catalog)
            alive = living_executors(self._documents, self._alarms)
            self._restore_assignments(catalog, alive)
        return alive

    def restore_soon(self) -> None:
        """Like `restore`; while Redis is unavailable, the watcher does it later."""
        try:
            self.restore()
        except ExternalError as error:
            log.warning("the catalog copy will be made later", reason=str(error))

    def _restore_catalog(self, catalog: Catalog) -> None:
        copy, body = self._documents.catalog(), self._encode(catalog)
        if copy == body:
            return
        if copy is not None and copy == self._written or self._outdated(copy, catalog):
            self._documents.set_catalog(body)
            self._written = body

    def _outdated(self, copy: bytes | None, catalog: Catalog) -> bool:
        """Whether a copy may be replaced: it is invalid, not newer than the catalog, or its version never existed."""
        try:
            known = read_catalog(copy, self._leader.cluster)
        except Malformed as error:
            self._alarms.raise_at(CATALOG_COPY, f"{error}; written again")
            return True
        if known is None or known.version <= catalog.version:
            return True
        if not self._leader.leads():
            return False
        self._alarms.raise_at(CATALOG_COPY, f"it has version {known.version}, which does not exist; written again")
        return True

    def _restore_assignments(self, catalog: Catalog, alive: Mapping[str, ExecutorStatus]) -> None:
        try:
            current = read_assignments(self._documents.assignments())
        except Malformed as error:
            # new leases are times, so they are greater than the lost ones
            self._alarms.raise_at(ASSIGNMENTS, f"{error}; written again")
            current = {}
        now = time.time_ns() // 1_000_000
        believed = {name: taken for name, taken in current.items() if taken.lease <= now + AHEAD_MS}
        given = {name: renewed(taken, self._leases.get(name, 0), now) for name, taken in believed.items()}
        fragments = fragments_of(catalog, self._fragments)
        idle = set(fragments).difference(*(query.needed_fragments for query in catalog.running()))
        wanted = assign(given, alive, fragments, now, idle)
        self._leases |= {name: taken.lease for name, taken in wanted.items()}
        if wanted != current:
            self._documents.set_assignments(msgspec.json.encode(wanted))
            log.info("fragments assigned", **{name: taken.executor for name, taken in wanted.items()})

    def _encode(self, catalog: Catalog) -> bytes:
        """The copy of the catalog, encoded once for each version."""
        if self._encoded is None or self._encoded[0] is not catalog:
            copy = msgspec.structs.replace(catalog, cluster=self._leader.cluster)
            self._encoded = catalog, msgspec.json.encode(copy)
        return self._encoded[1]
