"""How far the fragments that divide the partitions of a source have read it, as their executors report."""

from __future__ import annotations

from collections.abc import Callable

from connectors.state.cluster import ClusterState
from dsms.placement.leases import read_statuses
from dsms.runtime.settings import ExecutorSettings
from operators.core.delta import BEGINNING
from operators.core.errors import ExternalError


def greatest_instant_of_others(settings: ExecutorSettings) -> Callable[[str], int]:
    """A function from a source's id to the greatest frontier that any fragment, this one included, reports for its
    partitions of the source; BEGINNING while Redis cannot be reached.

    A shard of a query advances to this instant while all its own partitions are idle. The reports may be out of date;
    results stay reproducible, because the decision to advance is logged as heartbeats before it takes effect.
    """
    cluster = ClusterState(settings.state.open(settings.alarms).documents())

    def reached(source: str) -> int:
        try:
            statuses = read_statuses(cluster.executors(), settings.alarms).values()
        except ExternalError:
            return BEGINNING
        lanes = (lane for status in statuses for lane in status.lanes.values())
        return max((lane.reached.get(source, BEGINNING) for lane in lanes), default=BEGINNING)

    return reached
