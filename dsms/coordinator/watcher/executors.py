"""Finds the living executors, and waits until they follow a version of the catalog."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from connectors.alarms import Alarms
from connectors.state.cluster import LEASE_MS
from dsms.local.waiting import wait_until
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
    #: How long no executor must have reported a fragment before it counts as run by none: longer than a lease, so that
    #: an executor whose last report was lost, for example because Redis lost its content, has reported again.
    absent_s: float = 1.2 * LEASE_MS / 1000

    def await_stopped(self, version: int) -> bool:
        """Whether all running executors follow a version in time."""
        return wait_until(lambda: self._stopped(version), self.stop_s, pause_s=_POLL_S)

    def await_halted(self, version: int, fragments: Collection[str], *, moving: bool = False) -> bool:
        """Whether all executors, including starting ones, follow a version in time, and some of them run `fragments`.
        Executors that ran one of these before can no longer publish anything.

        A fragment that no executor has reported for some seconds counts as halted, as in a cluster without executors.
        This is not allowed if queries are `moving` to other fragments."""
        known = _LastReports(time.monotonic())

        def halted() -> bool:
            """False while Redis is unavailable, as nothing is known then."""
            if (executors := self._reports()) is None:
                return False
            now = time.monotonic()
            known.note(executors, now)
            absent = set() if moving else known.absent(fragments, now - self.absent_s)
            running = _running(executors) >= set(fragments) - absent
            return running and follow_version(version, executors, starting=True)

        return wait_until(halted, self.halt_s, pause_s=_POLL_S)

    def positions(self, source: str, partition: int) -> list[int]:
        """The next offsets that queries read of a partition of a source, given by id. Raises ExternalError while Redis
        is unavailable."""
        lanes = (lane for status in self.executors().values() for lane in status.lanes.values())
        return [lane.offsets[place] for lane in lanes if (place := f"{source}/{partition}") in lane.offsets]

    def _stopped(self, version: int) -> bool:
        """Whether the executors follow the version now; False while Redis is unavailable, as nothing is known then."""
        executors = self._reports()
        return executors is not None and follow_version(version, executors)

    def _reports(self) -> list[ExecutorStatus] | None:
        """The last reports of the living executors; None while Redis is unavailable."""
        try:
            return list(self.executors().values())
        except ExternalError:
            return None


@dataclass
class _LastReports:
    """When executors have last reported each fragment; for others, when the wait began."""

    begun: float
    reported: dict[str, float] = field(default_factory=dict)

    def note(self, executors: Iterable[ExecutorStatus], now: float) -> None:
        """Notes the reports of a moment."""
        self.reported |= dict.fromkeys((name for status in executors for name in status.fragments), now)

    def absent(self, fragments: Iterable[str], before: float) -> set[str]:
        """The fragments that nobody has reported since an instant."""
        return {name for name in fragments if self.reported.get(name, self.begun) <= before}


def _running(executors: Iterable[ExecutorStatus]) -> set[str]:
    return {name for status in executors for name, state in status.fragments.items() if state == RUNNING}
