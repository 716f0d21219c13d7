"""Finds the living executors, and waits until they follow a version of the catalog."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from connectors.alarms import Alarms
from dsms.placement.leases import RUNNING, ExecutorStatus, read_statuses
from dsms.placement.whole_queries import with_whole_queries
from operators.core.errors import ExternalError

_POLL_S = 0.1


class ExecutorStatuses(Protocol):
    """Stores the reports by which executors show that they are alive; `ClusterState` does so in Redis."""

    def executors(self) -> dict[str, bytes]:
        """The last report of each living executor, encoded. Raises ExternalError while they cannot be read."""
        ...


def living_executors(cluster: ExecutorStatuses, alarms: Alarms) -> dict[str, ExecutorStatus]:
    """The last reports of the living executors, by name. A query that several fragments run appears as one query."""
    return with_whole_queries(read_statuses(cluster.executors(), alarms))


def follow_version(version: int, executors: Iterable[ExecutorStatus], *, starting: bool = False) -> bool:
    """Whether every running executor follows a version of the catalog or a later one; with `starting`, also every
    executor that has fragments but does not run them yet.

    >>> behind = ExecutorStatus("recovering", plan_version=3, fragments={"0": "recovering"})
    >>> follow_version(4, [behind]), follow_version(4, [behind], starting=True)
    (True, False)
    """
    counted = [status for status in executors if status.state == RUNNING or (starting and status.fragments)]
    return all(status.plan_version >= version for status in counted)


@dataclass(frozen=True)
class CatalogFollowers:
    """Waits until executors follow a version of the catalog: at most `stop_s` for queries that are paused or dropped,
    at most `halt_s` for queries that are to be replaced."""

    executors: Callable[[], Mapping[str, ExecutorStatus]]
    stop_s: float = 5.0
    halt_s: float = 30.0

    def await_stopped(self, version: int) -> bool:
        """Whether all running executors follow a version in time."""
        return self._await_version(version, self.stop_s)

    def await_version(self, version: int, fragments: Collection[str] = ()) -> bool:
        """Whether all executors, including starting ones, follow a version in time, and some of them run `fragments`.
        Executors that ran one of these before can no longer publish anything."""
        return self._await_version(version, self.halt_s, starting=True, fragments=fragments)

    def positions(self, source: str, partition: int) -> list[int]:
        """The next offsets that queries read of a partition of a source, given by id. Raises ExternalError while Redis
        is unavailable."""
        lanes = (lane for status in self.executors().values() for lane in status.lanes.values())
        return [lane.offsets[place] for lane in lanes if (place := f"{source}/{partition}") in lane.offsets]

    def _await_version(
        self, version: int, seconds: float, *, starting: bool = False, fragments: Collection[str] = ()
    ) -> bool:
        deadline, waiting = time.monotonic() + seconds, threading.Event()
        while not (reached := self._follow_version(version, fragments, starting=starting)):
            if time.monotonic() >= deadline:
                break
            waiting.wait(_POLL_S)
        return reached

    def _follow_version(self, version: int, fragments: Collection[str], *, starting: bool) -> bool:
        """Whether the executors follow the version now; False while Redis is unavailable, as nothing is known then."""
        try:
            executors = self.executors().values()
        except ExternalError:
            return False
        running = {name for status in executors for name, state in status.fragments.items() if state == RUNNING}
        return follow_version(version, executors, starting=starting) and running >= set(fragments)
