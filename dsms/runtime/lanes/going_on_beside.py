"""Lanes that begin beside another one, in the middle of their logs."""

from __future__ import annotations

from dsms.physical.lane import Lane
from dsms.physical.warm_up import warm_up
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.stages.stored_state import Names
from operators.core.delta import BEGINNING


def going_on_beside(lane: Lane, other: Lane, progress: LaneManifest) -> LaneManifest | None:
    """The progress of a lane that goes on from the positions of another one, with the state of the vertices that both
    have; it is exact once no result depends on what the others have not seen. None where that may never be, or where
    the other one has not begun, is not exact, or has elements that wait."""
    flow, sources = lane.flow, {source.id for source in lane.sources.values()}
    duration = warm_up(flow, other.flow.keys)
    if duration is None or progress.queues or not progress.exact or not sources <= progress.positions.keys():
        return None
    positions = {source: progress.positions[source] for source in sources}
    places = [place for partitions in positions.values() for place in partitions.values()]
    reached = max(max(place.high, place.frontier) for place in places)
    if reached == BEGINNING:
        return None
    traces: Names = {
        key: [[] for _ in vertex.operator.traces()]
        for key, vertex in zip(flow.keys, flow.vertices, strict=True)
        if vertex.stage and vertex.operator.traces()
    }
    runs = [{key: names.get(key, empty) for key, empty in traces.items()} for names in progress.runs]
    return LaneManifest(tuple(output.id for output in lane.outputs), positions, runs, exact_from=reached + duration + 1)
