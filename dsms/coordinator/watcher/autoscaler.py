"""A duty of the watcher: adapts the number of executors to the load."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import structlog

from dsms.coordinator.watcher.progress import Progress
from dsms.model.catalog import Catalog
from dsms.placement.executor_count import ExecutorLoad, History, Scaling, desired_count
from dsms.placement.leases import STARTING, ExecutorStatus
from operators.core.errors import ExternalError

log = structlog.get_logger()
#: The pause between two checks, in seconds.
_LOOK_S = 2.0


class Scale(Protocol):
    """Runs the requested number of executors, such as a StatefulSet of Kubernetes."""

    def count(self) -> int:
        """The requested number of executors. Raises ExternalError if it cannot be read."""

    def ask_for(self, count: int) -> None:
        """Requests `count` executors. Raises ExternalError if that fails."""


class Autoscaler:
    """Requests more executors when a query falls behind, and fewer when none does (`executor_count.desired_count`).

    An executor that stops hands its fragments to the others, so no result is lost or written twice. While the number
    cannot be read or changed, it stays as it is.
    """

    def __init__(
        self,
        scale: Scale,
        scaling: Scaling,
        catalog: Callable[[], Catalog],
        progress: Callable[[], Mapping[str, Progress]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scale, self._scaling, self._clock = scale, scaling, clock
        self._catalog, self._progress = catalog, progress
        self._past, self._next_look, self._failed = History(), 0.0, False

    def turn(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Checks the load and adapts the number of executors, if a check is due."""
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        try:
            self._follow(alive, now)
        except ExternalError as error:
            if not self._failed:
                log.warning("the number of executors stays as it is", reason=str(error))
            self._failed = True
        else:
            self._failed = False

    def _follow(self, alive: Mapping[str, ExecutorStatus], now: float) -> None:
        load = load_of(self._scale.count(), alive, self._catalog(), self._progress())
        count, past = desired_count(load, self._scaling, self._past, now)
        if count != load.requested:
            self._scale.ask_for(count)
            log.info(
                "executors follow the load", before=load.requested, after=count,
                queries=load.pace, records_per_second=round(load.arriving),
            )  # fmt: skip
        self._past = past


def load_of(
    asked: int, alive: Mapping[str, ExecutorStatus], catalog: Catalog, progress: Mapping[str, Progress]
) -> ExecutorLoad:
    """The load of all queries that should make progress: not of those that are paused or have failed. A query whose
    progress is unknown, as its executor is starting, is not caught up. If a query may be assigned to more fragments,
    one fragment is added, so that there is an executor for it."""
    failed = {id for status in alive.values() for id, lane in status.lanes.items() if lane.error is not None}
    running = [query for query in catalog.running() if not query.stopped and query.id not in failed]
    fragments = {fragment for query in running for fragment in query.needed_fragments}
    wider = any(query.fragments_by_load and query.partitions > len(query.fragments) for query in running)
    known = [progress[query.id] for query in running if query.id in progress]
    caught_up = len(known) == len(running) and not any(one.behind for one in known)
    pace: Literal["behind", "catching up", "caught up"] = "caught up" if caught_up else "catching up"
    return ExecutorLoad(
        asked,
        sum(status.state != STARTING for status in alive.values()),
        len(fragments) + wider,
        "behind" if any(one.falls_behind for one in known) else pace,
        sum(max(one.rate - one.catch_up_rate, 0.0) for one in known),
        frozenset(query.id for query in running),
    )
