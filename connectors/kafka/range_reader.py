"""Reading given ranges of offsets with one living consumer a process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, TopicPartition

from connectors.kafka.config import KafkaSettings
from connectors.kafka.errors import translate, translated
from connectors.kafka.topics import Partition
from operators.errors import ExternalError

_CONSUME = 10_000
_STALL_S = 30.0
#: Records read beyond the end of a range are kept for the next one, up to so many.
_SPILL = 100_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The committed records of a partition with `start ≤ offset < end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def key(self) -> Partition:
        """The topic and the partition."""
        return (self.topic, self.partition)


class RangeReader:
    """Reads ranges one after another; a range that starts where the last one ended goes on without a new fetch."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._consumer = settings.consumer(fetch_message_max_bytes=4_000_000, queued_min_messages=50_000)
        self._next: dict[Partition, int] = {}
        self._spill: dict[Partition, list[Message]] = {}

    def read(self, ranges: Sequence[OffsetRange]) -> dict[Partition, list[Message]]:
        """All committed records of the ranges, in offset order, by partition.

        Raises ExternalError when nothing arrives for 30 s, or when records of a range are gone.
        """
        found: dict[Partition, list[Message]] = {wanted.key: [] for wanted in ranges}
        ends = {wanted.key: wanted.end for wanted in ranges if wanted.end > wanted.start}
        if ends:
            self._position([wanted for wanted in ranges if wanted.end > wanted.start])
            self._take_spill(found, ends)
            self._consume(found, ends)
        return found

    def _position(self, ranges: Sequence[OffsetRange]) -> None:
        if {wanted.key: wanted.start for wanted in ranges} == self._next:
            return
        self._spill = {}
        with translated("assigning partitions"):
            self._consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start) for wanted in ranges])

    def _take_spill(self, found: dict[Partition, list[Message]], ends: dict[Partition, int]) -> None:
        spilled, self._spill = self._spill, {key: [] for key in ends}
        self._next = dict(ends)
        for key, messages in spilled.items():
            self._keep(key, messages, found, ends)

    def _consume(self, found: dict[Partition, list[Message]], ends: dict[Partition, int]) -> None:
        heard = time.monotonic()
        while ends:
            with translated("reading"):
                messages = self._consumer.consume(_CONSUME, 0.5)
            if messages:
                heard = time.monotonic()
                self._sort_out(messages, found, ends)
            elif time.monotonic() - heard > _STALL_S:
                self._forget()
                waiting = ", ".join(f"{topic}/{partition}" for topic, partition in ends)
                raise ExternalError(f"kafka delivers nothing for {_STALL_S:.0f} s from {waiting}")

    def _sort_out(
        self, messages: list[Message], found: dict[Partition, list[Message]], ends: dict[Partition, int]
    ) -> None:
        by_partition: dict[Partition, list[Message]] = {}
        for message in messages:
            by_partition.setdefault((message.topic(), message.partition()), []).append(message)
        for key, batch in by_partition.items():
            self._keep(key, batch, found, ends)

    def _keep(
        self, key: Partition, messages: list[Message], found: dict[Partition, list[Message]], ends: dict[Partition, int]
    ) -> None:
        if not messages:
            return
        end = self._next[key]
        fine = self._without_events(messages, key, ends)
        if not fine:
            return
        if fine[-1].offset() < end:
            found[key] += fine
        else:
            cut = sum(message.offset() < end for message in fine)
            found[key] += fine[:cut]
            self._spill[key] += fine[cut:]
        if fine[-1].offset() >= end - 1:
            ends.pop(key, None)
        if len(self._spill[key]) > _SPILL:
            self._next[key], self._spill[key] = -1, []

    def _without_events(self, messages: list[Message], key: Partition, ends: dict[Partition, int]) -> list[Message]:
        """The records; the end-of-partition event closes a range whose last offsets hold no committed record."""
        if all(message.error() is None for message in messages):
            return messages
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._forget()
                raise translate(error, f"reading {key[0]}/{key[1]}")
            if error is not None and message.offset() >= self._next[key]:
                ends.pop(key, None)
        return [message for message in messages if message.error() is None]

    def _forget(self) -> None:
        """After a failure nothing is known about where the consumer stands."""
        self._next, self._spill = {}, {}

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def read_whole(settings: KafkaSettings, topic: str, ends: Iterable[tuple[int, int, int]]) -> list[Message]:
    """All committed records of a topic between (partition, start, end) triples, for small topics."""
    reader = RangeReader(settings)
    try:
        found = reader.read([OffsetRange(topic, partition, start, end) for partition, start, end in ends])
    finally:
        reader.close()
    return [message for messages in found.values() for message in messages]
