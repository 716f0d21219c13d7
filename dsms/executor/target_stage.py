"""The target stage in a Python worker: state in, one move of each lane, encoded changes and new runs out."""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException

from connectors.redis.client import connect
from connectors.redis.run_store import RunStore
from dsms.executor.encoding import encode_changes
from dsms.executor.garbage import calm_worker
from dsms.executor.source_task import DELTA, FAILURE, RoutedRows, Sender
from dsms.plan.lane import Lane
from dsms.stages.lane_run import StageStep, route, target_stage
from dsms.stages.state_names import Names, name_runs, restore
from operators.delta import Delta, frame_to_ipc, union_all
from operators.errors import ExternalError
from operators.operator import Move

CHANGES, FAULTS, RUNS = "changes", "faults", "runs"
Row = dict[str, Any]
#: The frontier of each sender, by leaf and source partition; leaf -1 is an earlier target stage.
Senders = dict[tuple[int, int], int]


@dataclass(frozen=True)
class LaneContext:
    """What the driver knows of a lane at the start of an epoch."""

    lane: Lane
    frontier: int
    #: The frontier of every partition of its sources, by (leaf, partition).
    partition_frontiers: dict[tuple[int, int], int]
    #: The state on each target.
    names: list[Names]


@dataclass(frozen=True)
class StageContext:
    """What every target needs in an epoch; `prefix` names the runs it writes."""

    lanes: dict[str, LaneContext]
    prefix: str
    redis_url: str
    cluster: str
    fragment: str
    cache: Path
    targets: int
    #: A query that fails by configuration, for tests.
    poisoned: str | None = None


@dataclass(frozen=True)
class TargetStage:
    """The function that `mapInArrow` runs: the routed rows of one target in, its computed rows out."""

    context: StageContext
    stage: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What passes this stage by as it came, then one Arrow batch with everything this target computed."""
        calm_worker()
        arrived: dict[tuple[int, str], list[Row]] = defaultdict(list)
        senders: dict[tuple[int, str], Senders] = defaultdict(dict)
        for batch in batches:
            mine = self._mine(batch, senders)
            yield batch.filter(pc.invert(mine))
            for row in batch.filter(mine).to_pylist():
                arrived[(row["target"], row["lane"])].append(row)
        fresh: dict[str, pl.DataFrame] = {}
        out = RoutedRows(-1, -1)
        for (target, lane_id), sent in sorted(senders.items()):
            if self.context.lanes[lane_id].lane.flow.stages >= self.stage:
                self._lane(target, lane_id, arrived[(target, lane_id)], sent, fresh, out)
        _store(self.context).write(fresh)
        yield out.batch()

    def _mine(self, batch: pa.RecordBatch, senders: dict[tuple[int, str], Senders]) -> pa.BooleanArray:
        """Which rows are elements for this stage; the frontier of every sender is noted, whatever stage it sends to."""
        names = ("target", "lane", "kind", "edge", "leaf", "source_partition", "frontier")
        mine = []
        for target, lane, kind, edge, leaf, partition, frontier in zip(
            *(batch.column(name).to_pylist() for name in names), strict=True
        ):
            held = self.context.lanes.get(lane) if kind == DELTA else None
            mine.append(held is not None and held.lane.flow.exchanges[edge].stage == self.stage)
            if held is not None:
                senders[(target, lane)][(leaf, partition)] = frontier
        return pa.array(mine, pa.bool_())

    def _lane(
        self, target: int, lane_id: str, rows: list[Row], sent: Senders, fresh: dict[str, pl.DataFrame],
        out: RoutedRows,
    ) -> None:  # fmt: skip
        """A defect in one lane's operators is that lane's failure and no other's."""
        try:
            fresh |= self._step(target, self.context.lanes[lane_id], rows, sent, out)
        except (ExternalError, OSError, MemoryError):
            raise
        except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose operators these are
            trace = traceback.format_exc(limit=-3)
            out.add(target, lane_id, FAILURE, f"{type(error).__name__}: {error}\n{trace}".encode())

    def _step(
        self, target: int, held: LaneContext, rows: list[Row], sent: Senders, out: RoutedRows
    ) -> dict[str, pl.DataFrame]:  # fmt: skip
        """One move of a lane; gives the runs to be stored."""
        lane = held.lane
        if lane.name == self.context.poisoned:
            raise RuntimeError("poisoned by configuration")
        state = restore(lane, self.stage, held.names[target], _store(self.context).read)
        move = Move(held.frontier, frontier_after(held, sent))
        step = target_stage(lane, (self.stage, target), _inputs(rows), state, move)
        names, written = name_runs(step.state, f"{self.context.prefix}/{lane.id}/{target}")
        for edge, delta in step.sent.items():
            for to, part in enumerate(route(lane.flow.exchanges[edge], delta, self.context.targets, target)):
                out.add(to, lane.id, DELTA, part.to_ipc(), Sender(edge, frontier=move.end))
        _report(lane, target, step, out)
        out.add(target, lane.id, RUNS, msgspec.json.encode(names))
        return written


def _inputs(rows: list[Row]) -> dict[int, Delta]:
    """The elements by edge, in the order of their senders."""
    by_edge: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["leaf"], row["source_partition"])):
        by_edge[row["edge"]].append(row)
    return {edge: union_all([Delta.from_ipc(row["blob"]) for row in each]) for edge, each in by_edge.items()}


def frontier_after(held: LaneContext, sent: Senders) -> int:
    """A receiver's frontier is the minimum over its senders; a partition that sent nothing stands where it stood.

    Rows of an earlier target stage carry that stage's frontier, which is this one's.
    """
    if made := [frontier for (leaf, _), frontier in sent.items() if leaf < 0]:
        return max(made)
    return max(held.frontier, min({**held.partition_frontiers, **sent}.values()))


def _report(lane: Lane, target: int, step: StageStep, out: RoutedRows) -> None:
    for frame in step.faults:
        if frame.height:
            out.add(target, lane.id, FAULTS, frame_to_ipc(frame))
    if step.changes is not None and step.changes.height:
        out.add(target, lane.id, CHANGES, frame_to_ipc(encode_changes(lane, step.changes)))


@lru_cache(maxsize=4)
def _store_of(url: str, cluster: str, fragment: str, cache: Path) -> RunStore:
    return RunStore(connect(url), cluster, fragment, cache)


def _store(context: StageContext) -> RunStore:
    """One client a worker process."""
    return _store_of(context.redis_url, context.cluster, context.fragment, context.cache)
