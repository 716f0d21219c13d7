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
from polars.exceptions import PanicException

from connectors.redis.client import connect
from connectors.redis.run_store import RunStore
from dsms.executor.encoding import encode_changes
from dsms.executor.garbage import calm_worker
from dsms.executor.source_task import DELTA, FAILURE
from dsms.plan.lane import Lane
from dsms.stages.lane_run import LaneStep, after
from dsms.stages.state_names import Names, name_runs, restore
from operators.delta import Delta, frame_to_ipc, union_all
from operators.errors import ExternalError
from operators.operator import Move

COMPUTED = "lane string, kind string, target int, source_partition int, plan long, blob binary"
COMPUTED_ARROW: pa.Schema = pa.schema([  # type: ignore[arg-type]
    ("lane", pa.string()), ("kind", pa.string()), ("target", pa.int32()), ("source_partition", pa.int32()),
    ("plan", pa.int64()), ("blob", pa.binary()),
])  # fmt: skip
CHANGES, FAULTS, RUNS = "changes", "faults", "runs"


@dataclass(frozen=True)
class LaneContext:
    """What the driver knows of a lane at the start of an epoch."""

    lane: Lane
    frontier: int
    #: The frontier of every partition of its source.
    partition_frontiers: dict[int, int]
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
    #: A query that fails by configuration, for tests.
    poisoned: str | None = None


@dataclass(frozen=True)
class TargetStage:
    """The function that `mapInArrow` runs: the routed rows of one target in, its computed rows out."""

    context: StageContext

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One Arrow batch with everything this target computed; rows for the driver pass through."""
        calm_worker()
        arrived: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
        out: list[dict[str, Any]] = []
        for row in (row for batch in batches for row in batch.to_pylist()):
            if row["kind"] == DELTA:
                arrived[(row["target"], row["lane"])].append(row)
            else:
                out.append({name: row[name] for name in COMPUTED_ARROW.names})
        fresh: dict[str, pl.DataFrame] = {}
        for (target, lane_id), rows in sorted(arrived.items()):
            out += self._lane(target, lane_id, rows, fresh)
        _store(self.context).write(fresh)
        yield pa.RecordBatch.from_pylist(out, schema=COMPUTED_ARROW)

    def _lane(
        self, target: int, lane_id: str, rows: list[dict[str, Any]], fresh: dict[str, pl.DataFrame]
    ) -> list[dict[str, Any]]:
        """A defect in one lane's operators is that lane's failure and no other's."""
        held = self.context.lanes.get(lane_id)
        if held is None:
            return []
        try:
            return self._step(target, held, rows, fresh)
        except (ExternalError, OSError, MemoryError):
            raise
        except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose operators these are
            trace = traceback.format_exc(limit=-3)
            return [_row(lane_id, FAILURE, target, f"{type(error).__name__}: {error}\n{trace}".encode())]

    def _step(
        self, target: int, held: LaneContext, rows: list[dict[str, Any]], fresh: dict[str, pl.DataFrame]
    ) -> list[dict[str, Any]]:
        if held.lane.name == self.context.poisoned:
            raise RuntimeError("poisoned by configuration")
        read = _store(self.context).read
        state = restore(held.lane, held.names[target], read)
        delta = union_all(
            [Delta.from_ipc(row["blob"]) for row in sorted(rows, key=lambda row: row["source_partition"])]
        )
        step = after(held.lane, delta, state, Move(held.frontier, frontier_after(held, rows)))
        names, written = name_runs(step.state, f"{self.context.prefix}/{held.lane.id}/{target}")
        fresh |= written
        return [*_results(held.lane, target, step), _row(held.lane.id, RUNS, target, msgspec.json.encode(names))]


def frontier_after(held: LaneContext, rows: Iterable[dict[str, Any]]) -> int:
    """A receiver's frontier is the minimum over its senders; a partition that sent nothing stands where it stood."""
    sent = {row["source_partition"]: row["frontier"] for row in rows}
    lowest = min({**held.partition_frontiers, **sent}.values())
    return max(held.frontier, int(lowest))


def _results(lane: Lane, target: int, step: LaneStep) -> list[dict[str, Any]]:
    rows = [_row(lane.id, FAULTS, target, frame_to_ipc(frame)) for frame in step.faults if frame.height]
    if step.changes.height:
        rows.append(_row(lane.id, CHANGES, target, frame_to_ipc(encode_changes(lane, step.changes))))
    return rows


def _row(lane: str, kind: str, target: int, blob: bytes) -> dict[str, Any]:
    return {"lane": lane, "kind": kind, "target": target, "source_partition": -1, "plan": -1, "blob": blob}


@lru_cache(maxsize=4)
def _store_of(url: str, cluster: str, fragment: str, cache: Path) -> RunStore:
    return RunStore(connect(url), cluster, fragment, cache)


def _store(context: StageContext) -> RunStore:
    """One client a worker process."""
    return _store_of(context.redis_url, context.cluster, context.fragment, context.cache)
