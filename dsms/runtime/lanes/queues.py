"""Queues between the stages of a lane.

The input of a stage in an epoch is a *segment*: elements by exchange, and the positions up to which they were read. If
the scheduler does not let a stage run in an epoch, the segment is queued. Later the stage processes its oldest segments
in the same way as elements that have just arrived. This only divides the input into batches differently. Since output
does not depend on batches (the log law), the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import polars as pl

from dsms.planner.physical.lane import Lane
from dsms.runtime.lanes.manifest import LaneManifest, Positions, Queue, Segment, frontiers_of
from dsms.runtime.stages.lane_step import Frontiers
from dsms.runtime.stages.stored_state import Names
from dsms.runtime.stages.wire import StageServed
from operators.core.delta import Delta, union_all

#: How many segments of its queue each stage of a lane processes. A stage that is not listed processes its whole queue
#: and what arrives.
SegmentCounts = Mapping[int, int]


@dataclass(frozen=True)
class StageInput:
    """What a stage processes in an epoch: `take` segments of its queue, or, if `take` is None, the whole queue and what
    arrives. `before` are the frontiers up to which it has processed its input; `waiting` are the frontiers after each
    queued segment."""

    before: Frontiers
    waiting: tuple[Frontiers, ...] = ()
    take: int | None = None

    def frontiers(self, arrived: Frontiers) -> tuple[Frontiers, Frontiers]:
        """The frontiers before and after the epoch; `arrived` are those after the arriving elements.

        >>> StageInput({0: 1}, ({0: 4}, {0: 6}), 1).frontiers({0: 9})
        ({0: 1}, {0: 4})
        >>> StageInput({0: 1}, ({0: 4},)).frontiers({0: 9}), StageInput({0: 1}, (), 0).frontiers({0: 9})
        (({0: 1}, {0: 9}), ({0: 1}, {0: 1}))
        """
        if self.take is None:
            return self.before, arrived
        return self.before, self.waiting[self.take - 1] if self.take else self.before


@dataclass(frozen=True)
class TakenInput:
    """The input that a stage processes, and what stays queued: the names of the queued runs, and those that have to be
    written (`fresh`)."""

    inputs: Mapping[int, Delta]
    names: Names = field(default_factory=dict)
    fresh: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def stage_inputs(lane: Lane, progress: LaneManifest, takes: SegmentCounts) -> dict[int, StageInput]:
    """What each stage of a lane processes in an epoch."""
    return {stage: _stage_input(stage, lane, progress, takes.get(stage)) for stage in range(1, lane.flow.stages + 1)}


def has_queued_work(progress: LaneManifest, takes: SegmentCounts) -> bool:
    """Whether a stage of a lane has to process its queue, even if nothing is read."""
    return any(takes.get(stage) != 0 for stage in progress.queues)


def _stage_input(stage: int, lane: Lane, progress: LaneManifest, take: int | None) -> StageInput:
    waiting = progress.queues[stage].segments if stage in progress.queues else []
    after = tuple(frontiers_of(segment.upto, lane.sources) for segment in waiting)
    return StageInput(progress.frontiers(lane.sources, stage), after, take)


@dataclass(frozen=True)
class StageQueue:
    """The queue of a stage of a lane on a target: the names of its runs, and how to read them."""

    lane: Lane
    stage: int
    names: Names
    read: Callable[[str], pl.DataFrame]

    def taken(self, stage_input: StageInput, arrived: Mapping[int, Delta], prefix: str) -> TakenInput:
        """Divides the queue and the arrived elements, given by exchange, into what the stage processes and what stays
        queued. The names of new runs begin with `prefix`."""
        queues, edges = self.lane.flow.queues, self.lane.flow.exchanges_into.get(self.stage, ())
        queued = {edge: self.names.get(queues[edge]) or [[] for _ in stage_input.waiting] for edge in edges}
        oldest = {edge: list(self._elements(segments[: stage_input.take])) for edge, segments in queued.items()}
        if stage_input.take is None:
            inputs = {edge: [*oldest.get(edge, ()), *([arrived[edge]] if edge in arrived else ())] for edge in edges}
            return TakenInput(_united(inputs), {queues[edge]: [] for edge in edges} if stage_input.waiting else {})
        fresh = {edge: (f"{prefix}/q{edge}", delta.frame) for edge, delta in arrived.items() if delta.frame.height}
        new = {edge: [fresh[edge][0]] if edge in fresh else [] for edge in edges}
        kept = {queues[edge]: [*queued[edge][stage_input.take :], new[edge]] for edge in edges}
        return TakenInput(_united(oldest), kept, dict(fresh.values()))

    def _elements(self, segments: list[list[str]]) -> Iterator[Delta]:
        return (Delta(self.read(name)) for segment in segments for name in segment)


def served(stage: int, arrived: Mapping[int, Delta], taken: TakenInput) -> StageServed:
    """The sizes of what arrived at a stage on a target, and of what the stage processes."""
    rows = sum(len(delta) for delta in arrived.values())
    return StageServed(stage, rows, _bytes(arrived), _bytes(taken.inputs))


def _bytes(deltas: Mapping[int, Delta]) -> int:
    return sum(int(delta.frame.estimated_size()) for delta in deltas.values())


def _united(parts: Mapping[int, list[Delta]]) -> dict[int, Delta]:
    return {edge: union_all(deltas) for edge, deltas in parts.items() if deltas}


def queues_after(
    lane: Lane, before: LaneManifest, read: tuple[int, Positions], takes: SegmentCounts, served: list[StageServed]
) -> dict[int, Queue]:
    """The queues of a lane after an epoch. `read` is the number of the epoch and the positions up to which it read;
    `served` are the messages of all stages and targets of the lane."""
    queues: dict[int, Queue] = {}
    epoch, reached = read
    for stage in range(1, lane.flow.stages + 1):
        take = takes.get(stage)
        if take is None:
            continue
        stage_served = [message for message in served if message.stage == stage]
        segment = Segment(
            epoch,
            reached,
            sum(message.rows for message in stage_served),
            sum(message.bytes for message in stage_served),
        )
        waiting = before.queues[stage].segments if stage in before.queues else []
        reached = waiting[take - 1].upto if take else before.done(stage)
        queues[stage] = Queue(reached, [*waiting[take:], segment])
    return queues
