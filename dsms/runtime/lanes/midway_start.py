"""Lanes that begin at the current positions of another lane instead of at the beginning of the logs.

Such a lane runs the next plan of a query. Only state in time windows is missing at first, so after a while its state is
what it would be from the beginning of the logs ("exact").
"""

from __future__ import annotations

from dsms.planner.physical.lane import Lane
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.stages.stored_state import Names

#: A lane does not begin at the positions of another lane while the partitions there are further apart in time than this
#: multiple of the time that the lane takes to become exact. It would take longer by that distance.
_MAX_SPREAD = 4


def midway_progress(lane: Lane, progress: LaneManifest, duration: int) -> LaneManifest | None:
    """The progress of a lane that begins at the positions of another lane, with the state of the vertices that both
    have. `progress` is that of the other lane.

    The new lane is exact `duration` instants after the last instant that was read: from then on no result depends on
    records that its other vertices have not seen. None as long as the other lane has queued elements or is not exact
    itself, or one of its source partitions is far ahead of another.
    """
    flow = lane.flow
    positions = {source.id: progress.positions.get(source.id, {}) for source in lane.sources.values()}
    places = [place for partitions in positions.values() for place in partitions.values()]
    if progress.queues or progress.exact_from is not None or not all(positions.values()):
        return None
    reached, least = max(max(place.high, place.frontier) for place in places), min(place.frontier for place in places)
    slack = max(source.slack for source in lane.sources.values())
    if reached - least > _MAX_SPREAD * (duration + slack):
        return None
    traces: Names = {
        key: [[] for _ in vertex.operator.traces()]
        for key, vertex in zip(flow.keys, flow.vertices, strict=True)
        if vertex.stage and vertex.operator.traces()
    }
    runs = [{key: names.get(key, empty) for key, empty in traces.items()} for names in progress.runs]
    return LaneManifest(tuple(output.id for output in lane.outputs), positions, runs, exact_from=reached + duration + 1)
