"""The source stage in a Python worker: consume, decode, run the stateless operators, and cut the deltas for the
exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
from confluent_kafka import Message
from polars.exceptions import PanicException
from pyspark.sql.datasource import InputPartition

from connectors.kafka.config import KafkaSettings
from connectors.kafka.range_reader import OffsetRange, RangeReader
from connectors.kafka.registry import schema_lookup
from dsms.executor.garbage import calm_worker
from dsms.executor.offsets import Slice
from dsms.executor.reading import arrivals_of, intake_of
from dsms.plan.lane import Lane
from dsms.stages.intake import Admitted, DeadLetter
from dsms.stages.lane_run import read_stage, route
from operators.delta import ORDER, origin
from operators.errors import DsmsError, ExternalError
from operators.operator import FAULT

#: What goes through the exchanges: elements for an edge (an exchange of the lane's dataflow) on a target, and what is
#: passed on to the driver. `leaf` is the number of the source in the lane, -1 where a later stage made the row.
ROUTED = (
    "target int, lane string, kind string, edge int, leaf int, source_partition int, plan long, frontier long, "
    "blob binary"
)
ROUTED_ARROW: pa.Schema = pa.schema([  # type: ignore[arg-type]
    ("target", pa.int32()), ("lane", pa.string()), ("kind", pa.string()), ("edge", pa.int32()), ("leaf", pa.int32()),
    ("source_partition", pa.int32()), ("plan", pa.int64()), ("frontier", pa.int64()), ("blob", pa.binary()),
])  # fmt: skip
DELTA, CLOCK, DEAD, FAILURE = "delta", "clock", "dead", "failure"


class Clock(msgspec.Struct, frozen=True, array_like=True):
    """Where a slice left a lane: the next offset and the partition's clock; `records` is how many it read."""

    offset: int
    frontier: int
    high: int
    records: int


class Letters(msgspec.Struct, frozen=True, array_like=True):
    """The dead letters of a slice: [owner] refused them; `start` and `end` are the slice's offsets."""

    owner: str
    source: str
    start: int
    end: int
    #: (offset, reason, value, query)
    letters: list[tuple[int, str, bytes, str | None]]


@dataclass(frozen=True)
class SourceTask(InputPartition):  # type: ignore[misc]
    """The slices one task reads, and the lanes that want them."""

    slices: tuple[Slice, ...]
    lanes: dict[str, Lane]
    plan_version: int
    targets: int
    kafka: KafkaSettings
    registry_url: str
    value: object = field(default=None)


def run_source_task(task: SourceTask) -> Iterator[pa.RecordBatch]:
    """The routed rows of a task, one Arrow batch a slice."""
    calm_worker()
    ranges = [OffsetRange(one.topic, one.partition, one.start, one.end) for one in task.slices]
    for group in _disjoint(ranges):
        for index, messages in zip(group, _reader(task.kafka).read([ranges[index] for index in group]), strict=True):
            yield _routed(task, task.slices[index], messages)


def _disjoint(ranges: Sequence[OffsetRange]) -> list[list[int]]:
    """Indices of ranges in groups that name no partition twice: a consumer stands at one place in a partition."""
    groups: list[list[int]] = []
    for index, wanted in enumerate(ranges):
        for group in groups:
            if all(ranges[other].key != wanted.key for other in group):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


@lru_cache(maxsize=4)
def _reader_of(bootstrap: str, properties: tuple[tuple[str, str], ...]) -> RangeReader:
    return RangeReader(KafkaSettings(bootstrap, dict(properties)))


def _reader(kafka: KafkaSettings) -> RangeReader:
    """One living consumer a worker process."""
    return _reader_of(kafka.bootstrap, tuple(sorted(kafka.properties.items())))


def _routed(task: SourceTask, one: Slice, messages: list[Message] | DsmsError) -> pa.RecordBatch:
    rows = RoutedRows(task.plan_version, one.partition)
    if isinstance(messages, DsmsError):
        for lane_id in one.lanes:
            rows.add(0, lane_id, FAILURE, str(messages).encode())
        return rows.batch()
    lane = task.lanes[one.lanes[0]]
    source = lane.sources[lane.leaf(one.source_id)]
    writer = schema_lookup(source.registry or task.registry_url)
    arrivals = arrivals_of(source, one.partition, messages, one.heartbeats)
    admitted = intake_of(source, writer).admit(arrivals, one.clock)
    rows.add(0, "", DEAD, _letters(source.id, source.name, one, admitted.dead))
    for lane_id in one.lanes:
        _route_lane(rows, task, one, task.lanes[lane_id], admitted, messages)
    return rows.batch()


def _route_lane(
    rows: RoutedRows, task: SourceTask, one: Slice, lane: Lane, admitted: Admitted, messages: list[Message]
) -> None:
    """A defect in one lane's operators is that lane's failure and no other's."""
    leaf = lane.leaf(one.source_id)
    clock = Clock(one.end, admitted.clock.frontier, admitted.clock.high, len(messages))
    rows.add(0, lane.id, CLOCK, msgspec.msgpack.encode(clock), Sender(leaf=leaf, frontier=clock.frontier))
    try:
        step = read_stage(lane, leaf, admitted.delta)
        routed = {edge: route(lane.flow.exchanges[edge], delta, task.targets) for edge, delta in step.sent.items()}
    except (ExternalError, OSError, MemoryError):
        raise
    except (Exception, PanicException) as error:  # noqa: BLE001 the outermost place that knows whose operators these are
        rows.add(0, lane.id, FAILURE, f"{type(error).__name__}: {error}".encode())
        return
    for edge, parts in routed.items():
        for target, part in enumerate(parts):
            rows.add(target, lane.id, DELTA, part.to_ipc(), Sender(edge, leaf, clock.frontier))
    letters = [letter for frame in step.faults for letter in _fault_letters(lane, one, frame, messages)]
    rows.add(0, "", DEAD, _letters(fault_owner(lane, leaf), lane.sources[leaf].name, one, letters))


def fault_owner(lane: Lane, leaf: int) -> str:
    """Who owns the dead letters of a lane's faults over one of its sources."""
    return f"{lane.id}:{lane.sources[leaf].id}"


def _fault_letters(lane: Lane, one: Slice, faults: pl.DataFrame, messages: list[Message]) -> Iterator[DeadLetter]:
    raw = {message.offset(): message.value() for message in messages}
    for order, reason in faults.select(ORDER, FAULT).iter_rows():
        offset = origin(order)[2]
        yield DeadLetter(one.partition, offset, reason, raw[offset], lane.name)


def _letters(owner: str, source: str, one: Slice, letters: Sequence[DeadLetter]) -> bytes:
    listed = [(letter.offset, letter.reason, _raw(letter.value), letter.query) for letter in letters]
    return msgspec.msgpack.encode(Letters(owner, source, one.start, one.end, listed))


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


class Sender(NamedTuple):
    """Who sends elements: for which edge, from which source of the lane, and with which frontier."""

    edge: int = -1
    leaf: int = -1
    frontier: int = 0


class RoutedRows:
    """Routed rows of one slice or stage, collected column by column."""

    def __init__(self, plan_version: int, partition: int) -> None:
        self._fixed = (partition, plan_version)
        self._rows: list[tuple[int, str, str, int, int, int, bytes]] = []

    def add(self, target: int, lane: str, kind: str, blob: bytes, sender: Sender | None = None) -> None:
        """One more row."""
        edge, leaf, frontier = sender or Sender()
        self._rows.append((target, lane, kind, edge, leaf, frontier, blob))

    def batch(self) -> pa.RecordBatch:
        """All rows as one Arrow batch."""
        if not self._rows:
            return pa.RecordBatch.from_pylist([], schema=ROUTED_ARROW)
        target, lane, kind, edge, leaf, frontier, blob = zip(*self._rows, strict=True)
        partition, plan = ([value] * len(self._rows) for value in self._fixed)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(column, field.type)
                for column, field in zip(
                    (target, lane, kind, edge, leaf, partition, plan, frontier, blob), ROUTED_ARROW, strict=True
                )
            ],
            schema=ROUTED_ARROW,
        )
