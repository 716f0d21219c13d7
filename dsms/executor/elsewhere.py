"""How far other fragments have read a source of which each reads some partitions, as their executors report it."""

from __future__ import annotations

from collections.abc import Callable

from connectors.redis.cluster_state import ClusterState
from dsms.runtime.settings import ExecutorSettings
from dsms.scheduler.leases import read_statuses
from operators.core.delta import BEGINNING
from operators.core.errors import ExternalError


def greatest_elsewhere(settings: ExecutorSettings) -> Callable[[str], int]:
    """The greatest instant that any fragment has passed in the partitions of a source that it reads, by the source's
    id. A share whose partitions are idle goes on with it; the decision is logged before it counts, so that it may rest
    on a report. Nothing is known while Redis is away."""
    cluster = ClusterState(settings.redis_url, settings.cluster, settings.alarms)

    def reached(source: str) -> int:
        try:
            statuses = read_statuses(cluster.executors(), settings.alarms).values()
        except ExternalError:
            return BEGINNING
        lanes = (lane for status in statuses for lane in status.lanes.values())
        return max((lane.reached.get(source, BEGINNING) for lane in lanes), default=BEGINNING)

    return reached
