"""The target stage: from the messages for a stage of all lanes, computes their output, state and results.

A store keeps the runs of state: that of the cluster in a Spark worker (`target_task`), one in memory in a
`LocalSession`. Both run the code here.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import msgspec

from dsms.planner.physical.lane import Lane
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.lanes.queues import SegmentCounts, StageInput, StageQueue, TakenInput, served, stage_inputs
from dsms.runtime.stages.frames import Frame
from dsms.runtime.stages.lane_step import Frontiers, StageStep, routes, target_stage
from dsms.runtime.stages.result_messages import ResultEncoding, result_messages
from dsms.runtime.stages.stage_runs import StageRuns
from dsms.runtime.stages.stored_state import Names, name_runs, restore
from dsms.runtime.stages.wire import (
    Elements,
    Envelope,
    Outbox,
    PartitionMoved,
    RowsInFault,
    SourcesMoved,
    StateStored,
    VertexFailed,
    VerticesWorked,
    send_parts,
)
from operators.core.delta import Delta, union_all

Moves = tuple[Frontiers, Frontiers]
#: The output of a stage that processes nothing.
_NO_STEP = StageStep({}, {}, {})
_Outbox = TypeVar("_Outbox", bound=Outbox)


@dataclass(frozen=True)
class LaneContext:
    """The progress of a lane at the start of an epoch, for its target stages."""

    #: The frontier of every partition of its sources, by (leaf, partition).
    partition_frontiers: dict[tuple[int, int], int]
    #: The names of its state, by target.
    names: list[Names]
    #: What each stage processes in this epoch.
    stage_inputs: dict[int, StageInput]

    @staticmethod
    def of(lane: Lane, progress: LaneManifest, takes: SegmentCounts) -> LaneContext:
        """The context of a lane, from its manifest and the number of segments that its stages take from their
        queues."""
        frontiers = {(lane.leaf(source), partition): at.frontier for (source, partition), at in progress.places.items()}
        return LaneContext(frontiers, progress.runs, stage_inputs(lane, progress, takes))


@dataclass(frozen=True)
class StageContext:
    """The data that all targets share in an epoch. The names of new runs begin with `prefix`."""

    #: The lanes of each revision for which messages may still arrive.
    revisions: Mapping[int, Mapping[str, Lane]]
    lanes: Mapping[int, Mapping[str, LaneContext]]
    prefix: str
    targets: int
    results: ResultEncoding

    @property
    def stages(self) -> int:
        """The number of the last stage that any lane has."""
        return max((lane.flow.stages for lanes in self.revisions.values() for lane in lanes.values()), default=1)


@dataclass
class _Arrived:
    """The messages that arrived for a lane on a target: elements, and the frontiers of its sources."""

    elements: list[Elements] = field(default_factory=list)
    partitions: dict[tuple[int, int], int] = field(default_factory=dict)
    #: The frontiers of the sources that an earlier stage computed; None in the first target stage.
    sources: dict[int, int] | None = None

    def take(self, envelope: Envelope) -> None:
        """Takes a message. A `Wake` has no content; its arrival alone makes the lane run."""
        match envelope.message:
            case Elements() as elements:
                self.elements.append(elements)
            case PartitionMoved(leaf, partition, frontier):
                self.partitions[leaf, partition] = frontier
            case SourcesMoved(frontiers):
                self.sources = frontiers

    def deltas(self) -> dict[int, Delta]:
        """The elements by exchange, in the order of their senders."""
        by_exchange: dict[int, list[Delta]] = defaultdict(list)
        for elements in sorted(self.elements, key=lambda elements: (elements.leaf, elements.partition)):
            by_exchange[elements.exchange].append(Delta(elements.frame.rows))
        return {exchange: union_all(deltas) for exchange, deltas in by_exchange.items()}

    def frontiers(self, lane: LaneContext) -> dict[int, int]:
        """The frontier of each source after the messages: the least of its partitions. A partition that sent nothing
        keeps its frontier."""
        if self.sources is not None:
            return self.sources
        return source_frontiers({**lane.partition_frontiers, **self.partitions})


def source_frontiers(frontiers: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """The least frontier of the partitions of each source.

    >>> source_frontiers({(0, 0): 5, (0, 1): 3, (1, 0): 9})
    {0: 3, 1: 9}
    """
    least: dict[int, int] = {}
    for (leaf, _), frontier in frontiers.items():
        least[leaf] = min(frontier, least.get(leaf, frontier))
    return least


@dataclass(frozen=True)
class TargetStage:
    """One stage of all lanes, on the targets whose messages `run` receives."""

    context: StageContext
    stage: int

    def run(
        self, envelopes: Iterable[Envelope], store: StageRuns, outbox: Callable[[int], _Outbox]
    ) -> Iterator[_Outbox]:
        """Runs the stage and yields the messages that it sends: an outbox for each lane and target with input. `outbox`
        creates one for a revision. When the iterator ends, all runs are stored."""
        arrived: dict[tuple[int, int, str], _Arrived] = defaultdict(_Arrived)
        for envelope in envelopes:
            arrived[envelope.target, envelope.revision, envelope.lane].take(envelope)
        stored: list[Callable[[], None]] = []
        for target, revision, lane_id in sorted(arrived):
            out = outbox(revision)
            received = arrived.pop((target, revision, lane_id))
            stored.append(self._step(target, revision, lane_id, received, store, out))
            yield out
            del out, received
        for wait in stored:
            wait()

    def _step(
        self, target: int, revision: int, lane_id: str, received: _Arrived, store: StageRuns, out: Outbox
    ) -> Callable[[], None]:
        """Runs a lane on a target. New runs are written in the background; the returned function waits for them."""
        context = self.context
        lane, progress = context.revisions[revision][lane_id], context.lanes[revision][lane_id]
        prefix, stage_input = f"{context.prefix}/{lane.id}/{target}", progress.stage_inputs[self.stage]
        began, arrived = time.perf_counter_ns(), received.deltas()
        taken = StageQueue(lane, self.stage, progress.names[target], store.read).taken(stage_input, arrived, prefix)
        stage_served, queued = served(self.stage, arrived, taken), taken.names
        moves = stage_input.frontiers(received.frontiers(progress))
        step = (
            _NO_STEP if stage_input.take == 0 else self._work(lane, target, progress.names[target], taken, moves, store)
        )
        names, written = name_runs(lane, step.state, prefix)
        stored = store.write({**written, **taken.fresh})
        received.elements.clear()
        del arrived, taken  # so that the input is freed before results are encoded
        send = partial(out.send, lane.id, target=target)
        for number, exchange, parts in routes(lane, step.sent, context.targets, target):
            if isinstance(parts, str):
                send(VertexFailed(exchange.producer, parts))
                continue
            send_parts(out, lane.id, partial(Elements, number), parts, exchange.stage)
        if self.stage < lane.flow.stages:
            send(SourcesMoved(dict(moves[1])), stage=self.stage + 1)
        send(StateStored({**names, **queued}))
        self._report(lane, step, out, send)
        send(msgspec.structs.replace(stage_served, busy_ns=time.perf_counter_ns() - began))
        return stored

    def _work(
        self, lane: Lane, target: int, names: Names, taken: TakenInput, moves: Moves, store: StageRuns
    ) -> StageStep:
        """Runs the stage's vertices for a move of their frontiers."""
        state = restore(lane, self.stage, names, store.read)
        return target_stage(lane, (self.stage, target), taken.inputs, state, moves)

    def _report(self, lane: Lane, step: StageStep, out: Outbox, send: Callable[..., None]) -> None:
        if step.work:
            send(VerticesWorked(step.work))
        for vertex, reason in step.failures.items():
            send(VertexFailed(vertex, reason))
        for vertex, frame in step.faults.items():
            if frame.height:
                send(RowsInFault(vertex, Frame(frame)))
        for message in result_messages(lane, step.changes, self.context.results, out):
            send(message)
