"""The log of a partition: batches of records, and what follows from them for readers.

All replicas of a partition are always in sync, so the leaders of a partition share one log, and the high watermark is
its end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.batches import Batch, batches_of, marker
from connectors.simulation.kafka.producers import ProducerState, Verification


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction of a producer: the offsets of its first record and of its marker."""

    producer: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to an append: an error code, and the offset of the first record."""

    code: int = codes.NONE
    base_offset: int = -1
    time_ms: int = -1


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a topic and of the broker that an append has to obey."""

    largest_batch: int
    #: Whether every record needs a key, because the topic is compacted.
    keyed: bool = False
    #: The time of the broker, if records get it as their timestamp; otherwise, the latest timestamp that they may have.
    stamp_ms: int | None = None
    latest_ms: int | None = None
    #: Whether a transaction must be verified before its first batch is appended.
    verification: bool = True
    #: The bytes of a segment, and how much later than its first batch its others may be.
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000


class PartitionLog:
    """The records of a partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        #: All batches that were ever appended, with those that compaction and retention have removed.
        self.history: list[Batch] = []
        self.start = self.end = 0
        self.producers: dict[int, ProducerState] = {}
        self.aborted: list[AbortedTransaction] = []
        #: Called once, after the next change of the end or of the last stable offset.
        self.waiting: list[Callable[[], None]] = []
        self._offsets: list[int] = []
        #: The offsets at which segments begin, and the time and the bytes of the last one.
        self._segments: set[int] = set()
        self._segment_time_ms, self._segment_size = 0, 0
        self._rules = Rules(1 << 30)

    @property
    def stable(self) -> int:
        """The last stable offset: all transactions below it have ended."""
        open_ = (state.first_offset for state in self.producers.values() if state.first_offset is not None)
        return min(open_, default=self.end)

    def producer(self, producer: int) -> ProducerState:
        """The state of a producer."""
        return self.producers.setdefault(producer, ProducerState())

    def append(self, data: bytes, rules: Rules, leader_epoch: int, verified: Verification | None = None) -> Appended:
        """Appends the batch of a client."""
        (batch,) = batches_of(data)
        self._rules = rules
        if (code := _malformed(batch, rules)) != codes.NONE:
            return Appended(code)
        if batch.producer >= 0:
            state = self.producer(batch.producer)
            if (earlier := state.duplicate(batch)) is not None:
                return Appended(codes.NONE, earlier.base_offset, earlier.max_time_ms)
            code = state.refusal(batch, verified, verification=rules.verification)
            if code != codes.NONE:
                return Appended(code)
        if rules.stamp_ms is not None:
            batch = batch.stamped(rules.stamp_ms)
        stored = self._add(batch, leader_epoch)
        if batch.producer >= 0:
            state.take(stored)
        self.changed()
        return Appended(codes.NONE, stored.base_offset, -1 if rules.stamp_ms is None else rules.stamp_ms)

    def end_transaction(
        self, producer: int, epoch: int, *, committed: bool, new_epochs: bool, time_ms: int, coordinator_epoch: int
    ) -> int:
        """Appends the marker that ends a transaction; returns an error code."""
        state = self.producer(producer)
        code = state.marker_refusal(epoch, coordinator_epoch, new_epochs=new_epochs)
        if code != codes.NONE:
            return code
        control = marker(producer, epoch, committed=committed, time_ms=time_ms, coordinator_epoch=coordinator_epoch)
        stored = self._add(control, 0)
        first = state.end(epoch, coordinator_epoch)
        if first is not None and not committed:
            self.aborted.append(AbortedTransaction(producer, first, stored.base_offset))
        self.changed()
        return codes.NONE

    def read(self, offset: int, upto: int, most_bytes: int) -> bytes:
        """The bytes of the batches from the one with `offset` on, of which the first is whole, with offsets below
        `upto` and from one segment.
        """
        parts, size = list[bytes](), 0
        for batch in self.batches[self._index(offset) :]:
            if batch.base_offset >= upto or (parts and (size >= most_bytes or batch.base_offset in self._segments)):
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)[: max(most_bytes, len(parts[0]))] if parts else b""

    def aborted_between(self, offset: int, upto: int) -> list[AbortedTransaction]:
        """The aborted transactions with records or a marker in a range of offsets."""
        return [each for each in self.aborted if each.last_offset >= offset and each.first_offset < upto]

    def committed(self, batches: list[Batch]) -> Iterator[Batch]:
        """The batches, of `batches` or `history`, whose records readers of committed records see."""
        stable = self.stable
        return (each for each in batches if each.last_offset < stable and not each.control and not self._aborts(each))

    def offset_at(self, time_ms: int, upto: int) -> tuple[int, int] | None:
        """The offset and time of the first record below `upto` with a timestamp of at least `time_ms`."""
        for batch in self.batches:
            if batch.max_time_ms >= time_ms and batch.base_offset < upto and not batch.control:
                for record in batch.records():
                    if record.timestamp >= time_ms and record.offset >= self.start:
                        return record.offset, record.timestamp
        return None

    def delete_before(self, offset: int) -> None:
        """Deletes the records below an offset, as retention and DeleteRecords do."""
        self.start = max(self.start, min(offset, self.end))
        self.replace([batch for batch in self.batches if batch.last_offset >= self.start])

    def replace(self, batches: list[Batch]) -> None:
        """Replaces the batches, as compaction does."""
        self.batches, self._offsets = batches, [batch.base_offset for batch in batches]

    def changed(self) -> None:
        """Calls all that wait for a change."""
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()

    def _aborts(self, batch: Batch) -> bool:
        """Whether a batch is of an aborted transaction."""
        return batch.transactional and any(
            each.producer == batch.producer and each.first_offset <= batch.base_offset < each.last_offset
            for each in self.aborted
        )

    def _index(self, offset: int) -> int:
        """The index of the batch with an offset, or of the first one after it."""
        at = max(bisect_right(self._offsets, offset) - 1, 0)
        return at if at < len(self.batches) and self.batches[at].last_offset >= offset else at + 1

    def _add(self, batch: Batch, leader_epoch: int) -> Batch:
        stored = batch.at(self.end, leader_epoch)
        self._roll(stored)
        self.batches.append(stored)
        self.history.append(stored)
        self._offsets.append(stored.base_offset)
        self.end = stored.last_offset + 1
        return stored

    def _roll(self, batch: Batch) -> None:
        """Begins a segment with a batch that does not fit into the last one."""
        size, rules = len(batch.data), self._rules
        late = batch.max_time_ms - self._segment_time_ms > rules.segment_ms
        if not self._segments or late or self._segment_size + size > rules.segment_bytes:
            self._segments.add(batch.base_offset)
            self._segment_time_ms, self._segment_size = batch.max_time_ms, 0
        self._segment_size += size


def _malformed(batch: Batch, rules: Rules) -> int:
    if len(batch.data) > rules.largest_batch:
        return codes.TOO_LARGE
    if rules.keyed and any(record.key is None for record in batch.records()):
        return codes.INVALID_RECORD
    if rules.latest_ms is not None and batch.max_time_ms > rules.latest_ms:
        return codes.INVALID_TIMESTAMP
    return codes.NONE
