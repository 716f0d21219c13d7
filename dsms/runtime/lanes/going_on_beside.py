"""Lanes that begin beside another one, in the middle of their logs."""

from __future__ import annotations

from dsms.physical.lane import Lane
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.stages.stored_state import Names

#: A lane waits until the source partitions of the other one are no further apart than so many times as long as it takes
#: to become exact: that would take longer by as much.
_APART = 4


def going_on_beside(lane: Lane, progress: LaneManifest, duration: int) -> LaneManifest | None:
    """The progress of a lane that goes on from the positions of another one, with the state of the vertices that both
    have. It is exact `duration` instants after the last one that was read: no result depends then on what the other
    vertices have not seen. None as long as the other lane has elements that wait or is not exact itself, or one of its
    source partitions is far ahead of another."""
    flow = lane.flow
    positions = {source.id: progress.positions.get(source.id, {}) for source in lane.sources.values()}
    places = [place for partitions in positions.values() for place in partitions.values()]
    if progress.queues or progress.exact_from is not None or not all(positions.values()):
        return None
    reached, least = max(max(place.high, place.frontier) for place in places), min(place.frontier for place in places)
    slack = max(source.slack for source in lane.sources.values())
    if reached - least > _APART * (duration + slack):
        return None
    traces: Names = {
        key: [[] for _ in vertex.operator.traces()]
        for key, vertex in zip(flow.keys, flow.vertices, strict=True)
        if vertex.stage and vertex.operator.traces()
    }
    runs = [{key: names.get(key, empty) for key, empty in traces.items()} for names in progress.runs]
    return LaneManifest(tuple(output.id for output in lane.outputs), positions, runs, exact_from=reached + duration + 1)
