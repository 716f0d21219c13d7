"""The source stage: reads slices (offset ranges) of logs and runs the stateless operators of the lanes that read them.

A reader provides the records: from Kafka in a Spark worker (`source_task`), from a list in an in-process session. All
other code of the source stage is here, so both run the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import polars as pl

from dsms.measurements.work import Work
from dsms.model.objects import Source
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.parts.links import query_of
from dsms.runtime.batching.offsets import Slice, SourceTask
from dsms.runtime.stages.incomplete_deletions import without_incomplete_deletions
from dsms.runtime.stages.intake import Admitted, RefusedArrival
from dsms.runtime.stages.lane_step import of_member, read_stage, routes
from dsms.runtime.stages.wire import (
    NO_LANE,
    DeadLetters,
    Elements,
    Outbox,
    PartitionMoved,
    RefusedRecord,
    ShedInput,
    SlicePosition,
    SourceFailed,
    SourceWaits,
    Unread,
    VertexFailed,
    VerticesWorked,
    Wake,
    send_parts,
)
from operators.core.delta import ORDER, origin
from operators.core.errors import DsmsError
from operators.core.operator import FAULT
from operators.streams.settings import settings_of

#: The stage to which the source stage sends.
_FIRST = 1
_Outbox = TypeVar("_Outbox", bound=Outbox)


@dataclass(frozen=True)
class SliceRequest:
    """A slice to be read, with its source and the columns that are needed."""

    slice: Slice
    source: Source
    columns: frozenset[str]


@dataclass(frozen=True)
class SliceRead:
    """A slice that was read: the elements and dead letters of its records, and the work of reading them. If the slice
    ended early, `waits_for` says what the record at its end waits for."""

    admitted: Admitted
    work: Work
    waits_for: str | None = None


class SliceReader(Protocol):
    """Provides the records of slices."""

    def read(self, requests: Sequence[SliceRequest]) -> Iterator[tuple[SliceRequest, SliceRead | DsmsError]]:
        """The result of each request, or the error of reading its slice; in any order. If a record has to wait, the
        slice of the returned request ends before it."""
        ...

    def values(self, slice_: Slice, offsets: set[int]) -> Mapping[int, object]:
        """The raw values of the records of a slice at `offsets`, except those that the log does not have any more. They
        are read again, because records are not kept after they were read."""
        ...


def fault_owner(query: str, source: str) -> str:
    """The owner of the dead letters of a query's faults in the source stage, by the ids of the query and the source.
    The parts of a query that several fragments run have the same owner, because each reads partitions of its own.

    >>> fault_owner("o7", "o1"), fault_owner("o7@0of2", "o1")
    ('o7:o1', 'o7:o1')
    """
    return f"{query_of(query)}:{source}"


def later_fault_owner(query: str, source: str, *, over_links: bool = False) -> str:
    """The owner of the dead letters of a query's faults after an exchange. Each part of a query that several fragments
    run has an owner of its own, because rows of one partition reach all of them. So has a query that reads shared
    subplans, because reports in other fragments write the dead letters of its faults in the source stage.

    >>> later_fault_owner("o7", "o1"), later_fault_owner("o7@0of2", "o1")
    ('o7:o1', 'o7@0of2:o1')
    >>> later_fault_owner("o7", "o1", over_links=True)
    'o7~later:o1'
    """
    return f"{query}~later:{source}" if over_links else f"{query}:{source}"


def source_of(owner: str) -> str:
    """The id of the source whose records an owner's dead letters contain.

    >>> source_of("o1"), source_of(fault_owner("o7", "o1"))
    ('o1', 'o1')
    """
    return owner.rpartition(":")[2]


def run_source_stage(task: SourceTask, reader: SliceReader, outbox: Callable[[], _Outbox]) -> Iterator[_Outbox]:
    """The messages of a task: an outbox for messages that are not about a slice, if there are any, then one for each
    slice, in the order of reading."""
    if task.lanes_to_wake or task.behind:
        yield _lane_messages(task, outbox())
    for request, read in reader.read([_request(task, slice_) for slice_ in task.slices]):
        out = outbox()
        sending = _Slice(task, request, reader, out)
        sending.failed(read) if isinstance(read, DsmsError) else sending.read(read)
        del read, sending  # so that the slice is freed before the next one is read
        yield out
        del out


def _lane_messages(task: SourceTask, outbox: _Outbox) -> _Outbox:
    for lane_id, records in task.behind.items():
        outbox.send(lane_id, Unread(records))
    for lane_id in task.lanes_to_wake:
        for target in range(task.targets):
            outbox.send(lane_id, Wake(), target=target, stage=_FIRST)
    return outbox


def _request(task: SourceTask, slice_: Slice) -> SliceRequest:
    """The request for a slice, with the columns that any of its lanes needs. Lanes may number its source
    differently."""
    lanes = [task.lanes[lane_id] for lane_id in slice_.lanes]
    source = lanes[0].sources[lanes[0].leaf(slice_.source_id)]
    columns = frozenset().union(*(lane.columns_read(lane.leaf(slice_.source_id)) for lane in lanes))
    return SliceRequest(slice_, source, columns)


@dataclass(frozen=True)
class _Slice:
    """The messages about one slice."""

    task: SourceTask
    request: SliceRequest
    reader: SliceReader
    outbox: Outbox

    @property
    def lanes(self) -> Iterator[tuple[Lane, int]]:
        """The lanes that read the slice, each with its number of the source."""
        slice_ = self.request.slice
        lanes = (self.task.lanes[lane_id] for lane_id in slice_.lanes)
        return ((lane, lane.leaf(slice_.source_id)) for lane in lanes)

    def failed(self, error: DsmsError) -> None:
        """Reports to the driver, for each lane, that the source could not be read."""
        for lane, leaf in self.lanes:
            self.outbox.send(lane.id, SourceFailed(leaf, str(error)))

    def read(self, read: SliceRead) -> None:
        """Runs the source stage of each lane on the slice."""
        source, slice_ = self.request.source, self.request.slice
        self._send_dead_letters(source.id, read.admitted.dead)
        if read.waits_for is not None:
            waits = SourceWaits(source.id, source.name, slice_.partition, slice_.end, read.waits_for)
            self.outbox.send(NO_LANE, waits)
        for lane, leaf in self.lanes:
            self._run(lane, leaf, read)

    def _run(self, lane: Lane, leaf: int, read: SliceRead) -> None:
        slice_, clock, send = self.request.slice, read.admitted.clock, partial(self.outbox.send, lane.id)
        at, records = slice_.partition, sum(read.work.rows_in)
        send(SlicePosition(leaf, at, slice_.end, clock.frontier, clock.high, records, clock.orders))
        settings = {query: settings_of(at, found) for query, found in slice_.settings.items()}
        step = read_stage(lane, leaf, read.admitted.delta, read.admitted.marks, settings)
        step = without_incomplete_deletions(lane, leaf, step, read.admitted.absent)
        for query, statistics in step.shed_input.items():
            send(ShedInput(query, at, statistics))
        send(VerticesWorked({lane.flow.leaf(leaf): read.work, **step.work}))
        for vertex, reason in step.failures.items():
            send(VertexFailed(vertex, reason))
        for target in range(self.task.targets):
            send(PartitionMoved(leaf, at, clock.frontier), target=target, stage=_FIRST)
        for number, exchange, parts in routes(lane, step.sent, self.task.targets):
            if isinstance(parts, str):
                send(VertexFailed(exchange.producer, parts))
                continue
            message = partial(Elements, number, leaf=leaf, partition=at)
            send_parts(self.outbox, lane.id, message, parts, exchange.stage)
        if step.faults:
            self._send_fault_dead_letters(lane, leaf, step.faults)

    def _send_fault_dead_letters(self, lane: Lane, leaf: int, faults: Mapping[int, pl.DataFrame]) -> None:
        """Sends the dead letters of each query whose operators could not evaluate a row."""
        offsets = {origin(order)[2] for frame in faults.values() for order in frame[ORDER]}
        values = self.reader.values(self.request.slice, offsets) if offsets else {}
        for output in lane.by_leaf[leaf]:
            below = lane.reported[output.id]
            frames = [of_member(frame, output) for vertex, frame in faults.items() if vertex in below]
            dead = [each for frame in frames for each in self._dead_letters(output, frame, values)]
            self._send_dead_letters(fault_owner(output.id, self.request.slice.source_id), dead)

    def _dead_letters(
        self, output: Output, faults: pl.DataFrame, values: Mapping[int, object]
    ) -> Iterator[RefusedArrival]:
        for order, reason in faults.select(ORDER, FAULT).iter_rows():
            offset = origin(order)[2]
            yield RefusedArrival(self.request.slice.partition, offset, reason, values.get(offset), output.first_name)

    def _send_dead_letters(self, owner: str, dead: Sequence[RefusedArrival]) -> None:
        if dead:
            refused = [RefusedRecord(each.offset, each.reason, _raw(each.value), each.query) for each in dead]
            slice_, source = self.request.slice, self.request.source
            place = (slice_.partition, slice_.start, slice_.end)
            self.outbox.send(NO_LANE, DeadLetters(owner, source.name, *place, refused))


def _raw(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
