"""Admitting a slice piece by piece: only one piece is in memory as messages, however long the slice is."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Message

from connectors.kafka.range_reader import Pieces
from connectors.kafka.record_formats import FORMATS
from dsms.model.objects import Source
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.awaited_schemas import Wait, first_awaited
from dsms.runtime.stages.intake import Admitted, in_sequence
from dsms.runtime.stages.record_reading import WriterSchema, arrivals_of, intake_of
from dsms.scheduler.work import Work
from operators.core.errors import DsmsError

#: The number of evenly spaced records from which the bytes of a piece are estimated.
_WEIGHED = 1_000


def admit_slice(
    source: Source, slice_: Slice, writer: WriterSchema, pieces: Pieces, columns: frozenset[str]
) -> SliceIntake | DsmsError:
    """The slice's intake after all of its pieces, which keeps only `columns`; or the first error among the pieces."""
    intake = SliceIntake(source, slice_, writer, columns)
    for messages in pieces:
        if isinstance(messages, DsmsError):
            return messages
        readable = intake.readable(messages)
        intake.take(readable, readable[-1].offset() if readable else slice_.start)
        del messages, readable  # frees the piece before the next one is read
        if intake.wait is not None:
            break
    intake.take_heartbeats()
    return intake


class SliceIntake:
    """What has been admitted of a slice so far."""

    def __init__(self, source: Source, slice_: Slice, writer: WriterSchema, columns: frozenset[str]) -> None:
        self._source, self._partition, self._columns = source, slice_.partition, columns
        self._writer = writer if FORMATS[source.format].schema else None
        #: Where reading has to stop for now; None: the slice can be read to its end.
        self.wait: Wait | None = None
        self._intake = intake_of(source, writer)
        self._clock, self._heartbeats = slice_.clock, slice_.heartbeats
        self._parts: list[Admitted] = []
        self._records = self._bytes = self._busy_ns = 0

    def readable(self, messages: list[Message]) -> list[Message]:
        """The messages up to the first one whose schema has to be waited for, which `wait` names."""
        if self._writer is None:
            return messages
        bodies = [message.key() if (value := message.value()) is None else value for message in messages]
        if (first := first_awaited(bodies, self._writer)) is None:
            return messages
        self.wait = Wait(messages[first[0]].offset(), first[1])
        return messages[: first[0]]

    def take(self, messages: Sequence[Message], upto: int) -> None:
        """Admits the next records, with the logged heartbeats at offsets of at most `upto`."""
        began = time.perf_counter_ns()
        count = bisect_right(self._heartbeats, upto, key=lambda beat: beat.offset)
        heartbeats, self._heartbeats = self._heartbeats[:count], self._heartbeats[count:]
        part = self._intake.admit(arrivals_of(self._source, self._partition, messages, heartbeats), self._clock)
        self._parts.append(replace(part, delta=part.delta.narrowed(self._columns)))
        self._clock = part.clock
        self._records += len(messages)
        self._busy_ns += time.perf_counter_ns() - began
        self._bytes += _bytes(messages)

    def take_heartbeats(self) -> None:
        """Admits the remaining heartbeats, which come after all records; where reading stops, those up to there."""
        if self._heartbeats:
            self.take([], self._heartbeats[-1].offset if self.wait is None else self.wait.offset)

    def admitted(self) -> Admitted:
        """What was admitted of all pieces, as one."""
        return in_sequence(self._parts)

    def work(self, lanes: int) -> Work:
        """The work of reading, for each of the lanes that share it."""
        rows = sum(len(part.delta) for part in self._parts)
        return Work((self._records,), rows, self._busy_ns // lanes, bytes_in=self._bytes)


def _bytes(messages: Sequence[Message]) -> int:
    """The bytes of the records' values, estimated from some of them if there are many."""
    some = messages[:: 1 + len(messages) // _WEIGHED]
    return sum(map(len, some)) * len(messages) // max(len(some), 1)
