"""The loop that looks after the cluster: copies in Redis, writes in doubt, and what else is to be kept up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.watcher.cluster_copies import ClusterCopies
from dsms.scheduler.leases import ExecutorStatus
from operators.core.errors import DsmsError, ExternalError

_TURN_S = 0.5
#: Something that is done in every turn, given the living executors; it must not wait for statements.
Duty = Callable[[Mapping[str, ExecutorStatus]], object]


class ClusterWatcher:
    """Turns again and again. The troubles of the last turn are one immutable value, which reads take without a lock."""

    def __init__(self, store: CatalogStore, copies: ClusterCopies, duties: Sequence[Duty]) -> None:
        self._store, self._copies, self._duties = store, copies, tuple(duties)
        self._troubles: Mapping[str, str] = {}

    def readiness(self) -> dict[str, str]:
        """What keeps the coordinator from working, by the service that is at fault; empty when it is ready."""
        return dict(self._troubles)

    def turn(self) -> None:
        """One look at the cluster."""
        if self._store.replaced:
            self._troubles = {"leader": "a newer coordinator has taken over"}
            return
        troubles: dict[str, str] = {}
        alive: Mapping[str, ExecutorStatus] = {}
        try:
            alive = self._copies.restore()
        except ExternalError as error:
            troubles["redis"] = str(error)
        try:
            self._store.check()
            self._store.try_settle()
            for duty in self._duties:
                duty(alive)
        except DsmsError as error:
            troubles["kafka"] = str(error)
        self._troubles = troubles

    def watch(self, stopping: threading.Event, when_replaced: Callable[[], None] = lambda: None) -> None:
        """Turns until it is told to stop."""
        while not stopping.wait(_TURN_S):
            self.turn()
            if self._store.replaced:
                when_replaced()
