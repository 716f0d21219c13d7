"""The executors that live, and whether they have come to a version of the catalog."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dsms.scheduler.leases import RUNNING, ExecutorStatus, read_statuses
from dsms.scheduler.whole_queries import with_whole_queries
from operators.core.alarms import Alarms
from operators.core.errors import ExternalError

_POLL_S = 0.1


class SignsOfLife(Protocol):
    """Where executors report that they live; `ClusterState` is the one in Redis."""

    def executors(self) -> dict[str, bytes]:
        """The last report of each living executor, encoded; ExternalError while they cannot be asked for."""
        ...


def living_executors(cluster: SignsOfLife, alarms: Alarms) -> dict[str, ExecutorStatus]:
    """The last reports of the living executors, by name. A query that several fragments run appears as one."""
    return with_whole_queries(read_statuses(cluster.executors(), alarms))


def have_come_to(version: int, executors: Iterable[ExecutorStatus], *, starting: bool = False) -> bool:
    """Whether every running executor follows a version of the catalog or a later one; with `starting` also those that
    have fragments but do not run them yet.

    >>> behind = ExecutorStatus("recovering", plan_version=3, fragments={"0": "recovering"})
    >>> have_come_to(4, [behind]), have_come_to(4, [behind], starting=True)
    (True, False)
    """
    counted = [status for status in executors if status.state == RUNNING or (starting and status.fragments)]
    return all(status.plan_version >= version for status in counted)


@dataclass(frozen=True)
class PlanWatch:
    """Waits until executors have come to a version of the catalog: at most `stop_s` for queries that are paused or
    dropped, at most `halt_s` for queries that are to be replaced."""

    executors: Callable[[], Mapping[str, ExecutorStatus]]
    stop_s: float = 5.0
    halt_s: float = 30.0

    def await_stopped(self, version: int) -> bool:
        """Whether all running executors come to a version in time."""
        return self._await_version(version, self.stop_s)

    def await_halted(self, version: int, fragments: Collection[str] = ()) -> bool:
        """Whether all executors, starting ones too, come to a version in time, and some of them run `fragments`: others
        that ran one of these before can publish nothing any more."""
        return self._await_version(version, self.halt_s, starting=True, fragments=fragments)

    def positions(self, source: str, partition: int) -> list[int]:
        """The offsets that queries read next of a partition of a source, by its id. ExternalError while Redis is
        away."""
        lanes = (lane for status in self.executors().values() for lane in status.lanes.values())
        return [lane.offsets[place] for lane in lanes if (place := f"{source}/{partition}") in lane.offsets]

    def _await_version(
        self, version: int, seconds: float, *, starting: bool = False, fragments: Collection[str] = ()
    ) -> bool:
        deadline, waiting = time.monotonic() + seconds, threading.Event()
        while not (reached := self._have_come_to(version, fragments, starting=starting)):
            if time.monotonic() >= deadline:
                break
            waiting.wait(_POLL_S)
        return reached

    def _have_come_to(self, version: int, fragments: Collection[str], *, starting: bool) -> bool:
        """No while Redis is away: nothing is known of the executors then."""
        try:
            executors = self.executors().values()
        except ExternalError:
            return False
        running = {name for status in executors for name, state in status.fragments.items() if state == RUNNING}
        return have_come_to(version, executors, starting=starting) and running >= set(fragments)
