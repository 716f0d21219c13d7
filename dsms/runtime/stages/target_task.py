"""The target stage in a Python worker: state in, one move of each lane, encoded changes and new runs out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from connectors.redis.client import connect
from connectors.redis.run_store import RunStore
from dsms.physical.dataflow import Exchange
from dsms.physical.lane import Lane
from dsms.runtime.lanes.manifest import LaneManifest
from dsms.runtime.lanes.queues import Taken, Takes, Turn, Waiting, served, turns
from dsms.runtime.memory.allocators import give_back
from dsms.runtime.memory.cyclic_collector import calm_worker
from dsms.runtime.stages.frame_files import packed, unpacked
from dsms.runtime.stages.lane_step import Frontiers, StageStep, route, target_stage
from dsms.runtime.stages.result_rows import result_rows
from dsms.runtime.stages.source_task import DELTA, FAILURE, MOVED, WAKE, WORK, RoutedRows, Sender
from dsms.runtime.stages.stored_state import Names, name_runs, restore
from operators.core.delta import Delta, union_all

FAULTS, RUNS, SERVED = "faults", "runs", "served"
Row = dict[str, Any]
Moves = tuple[Frontiers, Frontiers]
#: What a stage gives that has no turn.
_RESTS = StageStep({}, {}, {})


@dataclass(frozen=True)
class LaneContext:
    """What the driver knows of a lane at the start of an epoch."""

    #: The frontier of every partition of its sources, by (leaf, partition).
    partition_frontiers: dict[tuple[int, int], int]
    #: The state on each target.
    names: list[Names]
    #: What each stage works on.
    turns: dict[int, Turn]

    @staticmethod
    def of(lane: Lane, held: LaneManifest, takes: Takes) -> LaneContext:
        """A lane as its manifest says, with what its stages are to take of their queues."""
        frontiers = {(lane.leaf(source), partition): at.frontier for (source, partition), at in held.places.items()}
        return LaneContext(frontiers, held.runs, turns(lane, held, takes))


@dataclass(frozen=True)
class StageContext:
    """What every target needs in an epoch; `prefix` names the runs it writes."""

    #: The lanes of each revision of which rows may be on their way.
    revisions: Mapping[int, Mapping[str, Lane]]
    lanes: Mapping[int, Mapping[str, LaneContext]]
    prefix: str
    redis_url: str
    cluster: str
    fragment: str
    cache: Path
    targets: int
    #: Where large frames go, if all workers are on one machine.
    frames: Path | None = None
    #: A query that fails by configuration, for tests.
    poisoned: str | None = None
    #: The most bytes that the runs of the fragment may take in Redis.
    state_memory: int | None = None


@dataclass
class _Arrived:
    """What came for a lane on a target: elements, and how far its sources have come."""

    elements: list[Row] = field(default_factory=list)
    partitions: dict[tuple[int, int], int] = field(default_factory=dict)
    #: What an earlier stage found of that.
    moved: dict[int, int] | None = None


@dataclass(frozen=True)
class TargetStage:
    """The function that `mapInArrow` runs: the routed rows of one target in, its computed rows out."""

    context: StageContext
    stage: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What passes this stage by as it came, then one Arrow batch with everything this target computed."""
        calm_worker()
        arrived: dict[tuple[int, int, str], _Arrived] = defaultdict(_Arrived)
        for batch in batches:
            mine = self._mine(batch)
            yield batch.filter(pc.invert(mine))
            for row in batch.filter(mine).to_pylist():
                _note(row, arrived[(row["target"], row["revision"], row["lane"])])
        writes: list[Future[None]] = []
        for (target, revision, lane_id), came in sorted(arrived.items(), key=lambda item: item[0]):
            out = RoutedRows(revision, -1, self.context.frames)
            if self.context.revisions[revision][lane_id].flow.stages >= self.stage:
                writes.append(self._step(target, revision, lane_id, came, out))
            yield out.batch()
        for write in writes:
            write.result()
        give_back()

    def _mine(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows are for this stage."""
        names = ("revision", "lane", "kind", "edge")
        columns = (batch.column(name).to_pylist() for name in names)
        return pa.array(list(map(self._for_me, *columns)), pa.bool_())

    def _for_me(self, revision: int, lane: str, kind: str, edge: int) -> bool:
        if kind != DELTA:
            return kind in {MOVED, WAKE}
        exchange: Exchange = self.context.revisions[revision][lane].flow.exchanges[edge]
        return exchange.stage == self.stage

    def _step(self, target: int, revision: int, lane_id: str, came: _Arrived, out: RoutedRows) -> Future[None]:
        """The moves of a lane's vertices; gives the write of their runs, which goes on meanwhile."""
        lane, held = self.context.revisions[revision][lane_id], self.context.lanes[revision][lane_id]
        prefix, turn = f"{self.context.prefix}/{lane.id}/{target}", held.turns[self.stage]
        began, arrived = time.perf_counter_ns(), _inputs(came.elements)
        waiting = Waiting(lane, self.stage, held.names[target], worker_run_store(self.context).read)
        mine = waiting.taken(turn, arrived, prefix)
        told, queued = served(self.stage, arrived, mine), mine.names
        moves = turn.moves(reached(held, came.partitions, came.moved))
        step = _RESTS if turn.take == 0 else self._work(lane, target, held.names[target], mine, moves)
        names, written = name_runs(lane, step.state, prefix)
        write = _writer().submit(worker_run_store(self.context).write, {**written, **mine.fresh})
        del arrived, mine  # what came is not to stay while results are encoded
        for edge, delta in step.sent.items():
            out.send(lane.id, Sender(edge), route(lane.flow.exchanges[edge], delta, self.context.targets, target))
        out.add(target, lane.id, MOVED, msgspec.msgpack.encode(moves[1]))
        out.add(target, lane.id, RUNS, msgspec.json.encode({**names, **queued}))
        _report(lane, target, step, out, self.context)
        told = msgspec.structs.replace(told, busy_ns=time.perf_counter_ns() - began)
        out.add(target, lane.id, SERVED, msgspec.msgpack.encode(told))
        return write

    def _work(self, lane: Lane, target: int, names: Names, mine: Taken, moves: Moves) -> StageStep:
        """One move of the stage's vertices."""
        state = restore(lane, self.stage, names, worker_run_store(self.context).read)
        return target_stage(lane, (self.stage, target), mine.inputs, state, moves)


def _note(row: Row, came: _Arrived) -> None:
    if row["kind"] == DELTA:
        came.elements.append(row)
    elif row["kind"] == WAKE:
        return
    elif row["leaf"] < 0:
        came.moved = msgspec.msgpack.decode(row["blob"], type=dict[int, int])
    else:
        came.partitions[(row["leaf"], row["source_partition"])] = row["frontier"]


def _inputs(rows: list[Row]) -> dict[int, Delta]:
    """The elements by edge, in the order of their senders."""
    by_edge: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["leaf"], row["source_partition"])):
        by_edge[row["edge"]].append(row)
    return {edge: union_all([Delta(unpacked(row["blob"])) for row in each]) for edge, each in by_edge.items()}


def reached(
    held: LaneContext, sent: Mapping[tuple[int, int], int], moved: dict[int, int] | None = None
) -> dict[int, int]:  # fmt: skip
    """The frontiers of the sources after what arrived: of each the least of its partitions. A partition that sent
    nothing stands where it stood; `moved` is what an earlier stage found."""
    return moved if moved is not None else _least({**held.partition_frontiers, **sent})


def _least(frontiers: Mapping[tuple[int, int], int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for (leaf, _), at in frontiers.items():
        found[leaf] = min(at, found.get(leaf, at))
    return found


def _report(lane: Lane, target: int, step: StageStep, out: RoutedRows, context: StageContext) -> None:
    pack = partial(packed, directory=context.frames)
    if step.work:
        out.add(target, lane.id, WORK, msgspec.msgpack.encode(step.work))
    for vertex, why in step.failures.items():
        out.add(target, lane.id, FAILURE, why.encode(), Sender(vertex))
    for vertex, frame in step.faults.items():
        if frame.height:
            out.add(target, lane.id, FAULTS, pack([frame]), Sender(vertex))
    for kind, number, blob in result_rows(lane, step.changes, context.poisoned, pack):
        out.add(target, lane.id, kind, blob, Sender(number))


@lru_cache(maxsize=1)
def _writer() -> ThreadPoolExecutor:
    """The thread of a worker process that writes runs, one after another."""
    return ThreadPoolExecutor(1, "runs")


@lru_cache(maxsize=4)
def _store_of(url: str, place: tuple[str, str], cache: Path, limit: int | None) -> RunStore:
    return RunStore(connect(url), *place, cache, limit)


def worker_run_store(context: StageContext) -> RunStore:
    """The run store of this worker process; it keeps its connection from one stage to the next."""
    return _store_of(context.redis_url, (context.cluster, context.fragment), context.cache, context.state_memory)
