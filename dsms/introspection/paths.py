"""The paths of the scheduler as entities: for each stage of a lane, its place in the progress chart, and what waits
before it.

A path is a lane as the scheduler sees it: stage 0 reads, the others follow. Sizes are relative to a byte that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsms.introspection.entities import PathStage
from dsms.measurements.progress_chart import Chain, Path, Point, lower_envelope, progress_chart
from dsms.runtime.batching.schedule import LaneStage, Schedule
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.lanes.weights import weight_of
from dsms.scheduling.ready import ReadyQueue


def path_stages(fragment: str, revision: Revision, schedule: Schedule, now: float) -> tuple[PathStage, ...]:
    """The stages of all paths of a fragment at the time `now` of its clock."""
    paths = {lane: schedule.path(lane, revision) for lane in revision.lanes}
    known = {lane: path for lane, path in paths.items() if path is not None}
    waiting = {_lane_stage(queue): queue for queue in schedule.ready(revision, known, now)}
    return tuple(
        stage
        for lane in revision.lanes
        for stage in _stages(fragment, (lane, revision), schedule, known.get(lane), (waiting, now))
    )


def _stages(
    fragment: str,
    place: tuple[str, Revision],
    schedule: Schedule,
    path: Path | None,
    waiting: tuple[Mapping[LaneStage, ReadyQueue], float],
) -> Iterator[PathStage]:
    lane_id, revision = place
    lane, (queues, now) = revision.lanes[lane_id], waiting
    points = progress_chart(path) if path is not None else ()
    chains = lower_envelope(points) if points else ()
    for stage in range(lane.flow.stages + 1):
        queue = queues.get((lane_id, stage))
        measured = path[stage] if path is not None else None
        point, number, chain = _in_chart(points, chains, stage)
        yield PathStage(
            id=f"{fragment}-{lane_id}-path-{stage}",
            fragment=fragment,
            lane=lane_id,
            queries=tuple(dict.fromkeys(output.name for output in lane.outputs)),
            stage=stage,
            seconds_per_byte=measured.cost if measured else None,
            selectivity=measured.selectivity if measured else None,
            chart_seconds=point.time if point else None,
            chart_size=point.size if point else None,
            chain=number,
            chain_slope=_finite(chain.slope) if chain else None,
            waiting_bytes=round(queue.size) if queue else 0,
            waiting_seconds=max(now - queue.oldest_s, 0.0) if queue else None,
            weight=weight_of(lane),
            seconds_ahead=schedule.past.tag(lane_id) - schedule.past.least,
        )


def _in_chart(
    points: tuple[Point, ...], chains: tuple[Chain, ...], stage: int
) -> tuple[Point | None, int | None, Chain | None]:
    """The point of the progress chart after a stage, and the number of its chain, from 1, with the chain."""
    found = ((number, chain) for number, chain in enumerate(chains, 1) if stage in chain.operators)
    number, chain = next(found, (None, None))
    return (points[stage + 1] if points else None), number, chain


def _finite(slope: float) -> float | None:
    """A slope; None if the chain takes no time, so that it is infinite."""
    return slope if abs(slope) < float("inf") else None


def _lane_stage(queue: ReadyQueue) -> LaneStage:
    lane, stage = queue.key
    return str(lane), int(stage)
