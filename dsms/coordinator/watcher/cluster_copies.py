"""What executors find in Redis: a copy of the catalog, and which of them runs which fragment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
import structlog

from dsms.coordinator.watcher.executors import SignsOfLife, living_executors
from dsms.model.catalog import Catalog
from dsms.registration.placement import fragments_of
from dsms.scheduler.leases import Assignment, ExecutorStatus, assign
from operators.core.errors import ExternalError

log = structlog.get_logger()


class SharedDocuments(SignsOfLife, Protocol):
    """Documents that coordinator and executors share; `ClusterState` is the one in Redis. All of them may be lost."""

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


class ClusterCopies:
    """Keeps the documents as they should be. The copy of the catalog never goes back to an older version."""

    def __init__(self, documents: SharedDocuments, catalog: Callable[[], Catalog], fragments: int) -> None:
        self._documents, self._catalog, self._fragments = documents, catalog, fragments
        self._restoring = threading.Lock()
        self._encoded: tuple[Catalog, bytes] | None = None

    def restore(self) -> Mapping[str, ExecutorStatus]:
        """Writes what is missing or outdated, and gives the living executors. ExternalError while Redis is away."""
        with self._restoring:
            catalog = self._catalog()
            self._restore_catalog(catalog)
            alive = living_executors(self._documents)
            self._restore_assignments(catalog, alive)
        return alive

    def restore_soon(self) -> None:
        """As `restore`; while Redis is away the watcher does it later."""
        try:
            self.restore()
        except ExternalError as error:
            log.warning("the catalog copy will be made later", reason=str(error))

    def _restore_catalog(self, catalog: Catalog) -> None:
        copy, body = self._documents.catalog(), self._encode(catalog)
        if copy != body and (not copy or msgspec.json.decode(copy, type=Catalog).version <= catalog.version):
            self._documents.set_catalog(body)

    def _restore_assignments(self, catalog: Catalog, alive: Mapping[str, ExecutorStatus]) -> None:
        body = self._documents.assignments()
        current = msgspec.json.decode(body, type=dict[str, Assignment]) if body else {}
        wanted = assign(current, alive, fragments_of(catalog, self._fragments), time.time_ns() // 1_000_000)
        if wanted != current:
            self._documents.set_assignments(msgspec.json.encode(wanted))
            log.info("fragments assigned", **{name: taken.executor for name, taken in wanted.items()})

    def _encode(self, catalog: Catalog) -> bytes:
        """The catalog as its copy, encoded once for each version."""
        if self._encoded is None or self._encoded[0] is not catalog:
            self._encoded = catalog, msgspec.json.encode(catalog)
        return self._encoded[1]
