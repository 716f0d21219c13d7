"""The source stage in a Python worker: consume, decode, run the stateless operators, and cut the deltas for the
exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats.arrow_buffers import arrow_buffer
from connectors.kafka.config import KafkaSettings
from connectors.kafka.pieces import pieces
from connectors.kafka.range_reader import OffsetRange, Pieces, RangeReader
from connectors.kafka.registry import schema_lookup
from dsms.physical.lane import Lane, Output
from dsms.runtime.batching.offsets import Slice, SourceTask
from dsms.runtime.memory.allocators import give_back
from dsms.runtime.memory.cyclic_collector import calm_worker
from dsms.runtime.stages.frame_files import packed
from dsms.runtime.stages.intake import Admitted, DeadLetter
from dsms.runtime.stages.lane_step import of_member, read_stage, route
from dsms.runtime.stages.slice_intake import admit_slice
from dsms.runtime.stages.wire import ROUTED_ARROW
from dsms.scheduler.work import Work
from operators.core.delta import ORDER, Delta, origin
from operators.core.errors import DsmsError
from operators.core.operator import FAULT
from operators.core.ordering import Ordering
from operators.streams.shed import rates_of

DELTA, MOVED, WAKE, CLOCK, DEAD, FAILURE = "delta", "moved", "wake", "clock", "dead", "failure"
#: What vertices did, and what a lane has not read yet: passed on to the driver.
WORK, BEHIND = "work", "behind"
#: What came to a query's Shed.
SEEN = "seen"


class Clock(msgspec.Struct, frozen=True, array_like=True):
    """Where a slice left a lane: the next offset and the partition's clock; `records` is how many it read."""

    offset: int
    frontier: int
    high: int
    records: int
    orders: tuple[Ordering, ...] = ()


class Letters(msgspec.Struct, frozen=True, array_like=True):
    """The dead letters of a slice: [owner] refused them; `start` and `end` are the slice's offsets."""

    owner: str
    source: str
    start: int
    end: int
    #: (offset, reason, value, query)
    letters: list[tuple[int, str, bytes, str | None]]


def run_source_task(task: SourceTask) -> Iterator[pa.RecordBatch]:
    """The routed rows of a task, one Arrow batch a slice."""
    calm_worker()
    if task.wakes or task.behind:
        yield _told(task)
    ranges = [OffsetRange(one.topic, one.partition, one.start, one.end) for one in task.slices]
    for group in _disjoint(ranges):
        read = worker_reader(task.kafka).read([ranges[index] for index in group])
        for index, records in zip(group, read, strict=True):
            yield _routed(task, task.slices[index], records)
    give_back()


def _told(task: SourceTask) -> pa.RecordBatch:
    rows = RoutedRows(task.revision, -1, task.frames)
    for lane_id, records in task.behind.items():
        rows.add(0, lane_id, BEHIND, msgspec.msgpack.encode(records))
    for lane_id in task.wakes:
        for target in range(task.targets):
            rows.add(target, lane_id, WAKE, b"")
    return rows.batch()


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


def worker_reader(kafka: KafkaSettings) -> RangeReader:
    """The reader of this worker process; it keeps its consumer from one task to the next."""
    return _reader_of(kafka.bootstrap, tuple(sorted(kafka.properties.items())))


def _routed(task: SourceTask, one: Slice, records: Pieces) -> pa.RecordBatch:
    rows = RoutedRows(task.revision, one.partition, task.frames)
    lanes = [task.lanes[lane_id] for lane_id in one.lanes]
    source = lanes[0].sources[lanes[0].leaf(one.source_id)]
    columns = frozenset().union(*(each.read(each.leaf(one.source_id)) for each in lanes))
    read = admit_slice(source, one, schema_lookup(source.registry or task.registry_url), records, columns)
    if isinstance(read, DsmsError):
        for lane in lanes:
            rows.add(0, lane.id, FAILURE, str(read).encode(), Sender(leaf=lane.leaf(one.source_id)))
        return rows.batch()
    admitted, work = read.admitted(), read.work(len(one.lanes))
    if admitted.dead:
        rows.add(0, "", DEAD, _letters(source.id, source.name, one, admitted.dead))
    for lane in lanes:
        _route_lane(rows, task, one, lane, (admitted, work))
    return rows.batch()


def _route_lane(rows: RoutedRows, task: SourceTask, one: Slice, lane: Lane, found: tuple[Admitted, Work]) -> None:
    (admitted, read), leaf = found, lane.leaf(one.source_id)
    after = admitted.clock
    clock = Clock(one.end, after.frontier, after.high, sum(read.rows_in), after.orders)
    rows.add(0, lane.id, CLOCK, msgspec.msgpack.encode(clock), Sender(leaf=leaf, frontier=clock.frontier))
    rates = {query: rates_of(one.partition, found) for query, found in one.rates.items()}
    step = read_stage(lane, leaf, admitted.delta, admitted.marks, rates)
    for query, seen in step.seen.items():
        rows.add(0, lane.id, SEEN, msgspec.msgpack.encode((query, seen)))
    rows.add(0, lane.id, WORK, msgspec.msgpack.encode({lane.flow.leaf(leaf): read, **step.work}))
    for vertex, why in step.failures.items():
        rows.add(0, lane.id, FAILURE, why.encode(), Sender(vertex))
    for target in range(task.targets):
        rows.add(target, lane.id, MOVED, b"", Sender(leaf=leaf, frontier=clock.frontier))
    for edge, delta in step.sent.items():
        rows.send(lane.id, Sender(edge, leaf), route(lane.flow.exchanges[edge], delta, task.targets))
    if step.faults:
        _add_faults(rows, task, one, lane, step.faults)


def _add_faults(rows: RoutedRows, task: SourceTask, one: Slice, lane: Lane, faults: Mapping[int, pl.DataFrame]) -> None:
    """The dead letters of each query whose operators refused rows."""
    leaf = lane.leaf(one.source_id)
    values = _values_of(task, one, {origin(order)[2] for frame in faults.values() for order in frame[ORDER]})
    for output in lane.published_by_leaf(leaf):
        below = lane.flow.below[output.vertex]
        mine = [of_member(frame, output) for vertex, frame in faults.items() if vertex in below]
        if letters := [letter for frame in mine for letter in _fault_letters(output, one, frame, values)]:
            owner = fault_owner(output.id, one.source_id)
            rows.add(0, "", DEAD, _letters(owner, lane.sources[leaf].name, one, letters))


def _values_of(task: SourceTask, one: Slice, offsets: set[int]) -> dict[int, object]:
    """The values of records of a slice, which are read again: nothing that is read is kept as it came."""
    if not offsets:
        return {}
    again = OffsetRange(one.topic, one.partition, min(offsets), max(offsets) + 1)
    found = (message for piece in pieces(task.kafka, [again]) for message in piece)
    return {at: message.value() for message in found if (at := message.offset()) in offsets}


def fault_owner(query: str, source: str) -> str:
    """Who owns the dead letters of a query's faults over one of its sources; both by id."""
    return f"{query}:{source}"


def _fault_letters(
    output: Output, one: Slice, faults: pl.DataFrame, values: Mapping[int, object]
) -> Iterator[DeadLetter]:
    for order, reason in faults.select(ORDER, FAULT).iter_rows():
        offset = origin(order)[2]
        yield DeadLetter(one.partition, offset, reason, values[offset], output.name)


def _letters(owner: str, source: str, one: Slice, letters: Sequence[DeadLetter]) -> bytes:
    listed = [(letter.offset, letter.reason, _raw(letter.value), letter.query) for letter in letters]
    return msgspec.msgpack.encode(Letters(owner, source, one.start, one.end, listed))


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


class Sender(NamedTuple):
    """What a row is about: an edge, vertex or output, a source of the lane, and its frontier."""

    edge: int = -1
    leaf: int = -1
    frontier: int = 0


class RoutedRows:
    """Routed rows of one slice or stage, collected column by column; their blobs lie end to end from the start."""

    def __init__(self, revision: int, partition: int, frames: Path | None = None) -> None:
        self._fixed, self._frames = (partition, revision), frames
        self._rows: list[tuple[int, str, str, int, int, int, int, int]] = []
        self._blobs, self._ends = pa.BufferOutputStream(), [0]

    def add(self, target: int, lane: str, kind: str, blob: bytes, sender: Sender | None = None) -> None:
        """One more row."""
        self._blobs.write(blob)
        self._ends.append(self._blobs.tell())
        edge, leaf, frontier = sender or Sender()
        self._rows.append((target, lane, kind, edge, leaf, *self._fixed, frontier))

    def send(self, lane: str, sender: Sender, parts: Sequence[Delta]) -> None:
        """Elements for each target that gets any."""
        for target, part in enumerate(parts):
            if part.frame.height:
                self.add(target, lane, DELTA, packed([part.frame], self._frames), sender)

    def batch(self) -> pa.RecordBatch:
        """All rows as one Arrow batch; nothing can be added after it."""
        columns = list(zip(*self._rows, strict=True)) or [()] * (len(ROUTED_ARROW) - 1)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, list(ROUTED_ARROW)[:-1], strict=True)]
        return pa.RecordBatch.from_arrays([*arrays, self._blob_column()], schema=ROUTED_ARROW)

    def _blob_column(self) -> pa.Array[Any]:
        ends = arrow_buffer(np.array(self._ends, np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self._rows), [None, ends, self._blobs.getvalue()])
