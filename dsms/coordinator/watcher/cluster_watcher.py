"""The coordinator's maintenance loop: it rewrites documents that Redis has lost (the copy of the catalog, assignments),
settles writes in doubt, and runs the duties."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.watcher.redis_documents import RedisDocuments
from dsms.placement.leases import ExecutorStatus
from operators.core.errors import DsmsError, ExternalError

_TURN_S = 0.5
#: Maintenance that runs in every turn, given the living executors. It must not wait for statements.
Duty = Callable[[Mapping[str, ExecutorStatus]], object]


class ClusterWatcher:
    """Repeats turns. The problems of the last turn are one immutable value, which readers take without a lock."""

    def __init__(self, store: CatalogStore, copies: RedisDocuments, duties: Sequence[Duty]) -> None:
        self._store, self._copies, self._duties = store, copies, tuple(duties)
        self._problems: Mapping[str, str] = {}

    def readiness(self) -> dict[str, str]:
        """The reasons why the coordinator is not ready, by what is at fault: a service, or "maintenance"
        if a duty failed. Empty if it is ready."""
        return dict(self._problems)

    def turn(self) -> None:
        """Restores the copies, settles a write in doubt and runs all duties once."""
        if self._store.replaced:
            self._problems = {"leader": "a newer coordinator has taken over"}
            return
        problems: dict[str, str] = {}
        alive: Mapping[str, ExecutorStatus] = {}
        try:
            alive = self._copies.restore()
        except ExternalError as error:
            problems["redis"] = str(error)
        try:
            self._store.check()
            self._store.try_settle()
        except DsmsError as error:
            problems["kafka"] = str(error)
        else:
            problems |= self._problems_of_duties(alive)
        self._problems = problems

    def _problems_of_duties(self, alive: Mapping[str, ExecutorStatus]) -> dict[str, str]:
        """Runs all duties: one that fails does not keep the others from running."""
        failed: list[str] = []
        for duty in self._duties:
            try:
                duty(alive)
            except DsmsError as error:
                failed.append(str(error))
        return {"maintenance": "; ".join(dict.fromkeys(failed))} if failed else {}

    def watch(
        self,
        stopping: threading.Event,
        when_replaced: Callable[[], None] = lambda: None,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Repeats turns until `stopping` is set. Calls `progress` before each turn, and `when_replaced` after each turn
        in which a newer coordinator has taken over."""
        while not stopping.wait(_TURN_S):
            progress()
            self.turn()
            if self._store.replaced:
                when_replaced()
