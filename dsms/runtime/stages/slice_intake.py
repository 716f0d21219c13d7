"""The records of a slice, admitted piece by piece: however long it is, one piece at a time is in memory as messages."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Message

from connectors.kafka.range_reader import Pieces
from dsms.model.objects import Source
from dsms.runtime.batching.offsets import Slice
from dsms.runtime.stages.intake import Admitted, in_sequence
from dsms.runtime.stages.record_reading import WriterSchema, arrivals_of, intake_of
from dsms.scheduler.work import Work
from operators.core.errors import DsmsError

#: The bytes of a piece are counted on about so many of its records, evenly spaced.
_WEIGHED = 1_000


def admit_slice(
    source: Source, one: Slice, writer: WriterSchema, pieces: Pieces, columns: frozenset[str]
) -> SliceIntake | DsmsError:
    """What is admitted of a slice, with the columns that anything reads; the error among its pieces, if there is
    one."""
    intake = SliceIntake(source, one, writer, columns)
    for messages in pieces:
        if isinstance(messages, DsmsError):
            return messages
        intake.take(messages, messages[-1].offset() if messages else one.start)
        del messages  # a piece is not to stay until the next one is there
    intake.take_heartbeats()
    return intake


class SliceIntake:
    """What was admitted of a slice so far."""

    def __init__(self, source: Source, one: Slice, writer: WriterSchema, columns: frozenset[str]) -> None:
        self._source, self._partition, self._columns = source, one.partition, columns
        self._intake = intake_of(source, writer)
        self._clock, self._heartbeats = one.clock, one.heartbeats
        self._parts: list[Admitted] = []
        self._records = self._bytes = self._busy_ns = 0

    def take(self, messages: Sequence[Message], upto: int) -> None:
        """The next records, with the logged heartbeats at offsets up to one."""
        began = time.perf_counter_ns()
        count = bisect_right(self._heartbeats, upto, key=lambda beat: beat.offset)
        mine, self._heartbeats = self._heartbeats[:count], self._heartbeats[count:]
        part = self._intake.admit(arrivals_of(self._source, self._partition, messages, mine), self._clock)
        self._parts.append(replace(part, delta=part.delta.narrowed(self._columns)))
        self._clock = part.clock
        self._records += len(messages)
        self._busy_ns += time.perf_counter_ns() - began
        self._bytes += _bytes(messages)

    def take_heartbeats(self) -> None:
        """Those that are left: they promise what comes after all records."""
        if self._heartbeats:
            self.take([], self._heartbeats[-1].offset)

    def admitted(self) -> Admitted:
        """All of it as one."""
        return in_sequence(self._parts)

    def work(self, lanes: int) -> Work:
        """What reading was, for each of so many lanes that share it."""
        rows = sum(len(part.delta) for part in self._parts)
        return Work((self._records,), rows, self._busy_ns // lanes, bytes_in=self._bytes)


def _bytes(messages: Sequence[Message]) -> int:
    """The bytes of the records' values: of a long piece, estimated from some of them."""
    some = messages[:: 1 + len(messages) // _WEIGHED]
    return sum(map(len, some)) * len(messages) // max(len(some), 1)
