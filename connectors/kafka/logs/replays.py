"""Writes refused records to their topic again, and marks their dead letters as replayed, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import OP_HEADER, REPLAY_HEADER, REPLAYED_HEADER, TS_HEADER, transactional_id
from connectors.kafka.client.topics import earliest, latest, partitions_of
from connectors.kafka.logs.dead_letters import DeadLetter
from connectors.kafka.records.epoch_writer import EpochWriter
from connectors.kafka.records.range_reader import OffsetRange, RangeReader
from connectors.kafka.records.record_columns import Records
from operators.core.errors import DsmsError

__all__ = ["Message", "ReplayWriter", "ReplayTarget", "Replayed", "refused_records"]

#: Records whose offsets are at most this far apart are read in one range.
_GAP = 1_000


@dataclass(frozen=True, slots=True)
class Replayed:
    """A dead letter to replay, the refused record, and the value to write: None for a record without a value."""

    letter: DeadLetter
    message: Message
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A source topic, its id, and the topic of its source's dead letters."""

    name: str
    id: str
    dead_letter_topic: str


class ReplayWriter:
    """The only writer of replays in a cluster. Creating it fences an older one and aborts its open transaction; marks
    that are read afterwards are complete. A block that ends without `write` writes nothing.
    """

    def __init__(self, settings: KafkaSettings, cluster: str) -> None:
        self._writer, self._begun = EpochWriter(settings, transactional_id(cluster, "replay")), False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._begun:
            self._abort(error)
        self._writer.close()

    def _abort(self, error: BaseException) -> None:
        try:
            self._writer.abort()
        except DsmsError as other:
            error.add_note(f"its transaction ends within a minute: {other}")

    def write(self, topic: ReplayTarget, replays: Sequence[Replayed], *, stamped: bool) -> None:
        """Atomically writes the records to their topic, each to its partition with its key and headers, and marks their
        dead letters. If `stamped`, a record without an instant in a header gets its original timestamp as instant; so
        its row is valid from the same instant as that of the refused record would have been.
        """
        self._begun = True
        self._writer.begin()
        self._writer.write(_records(topic.name, replays, stamped))
        marks = [_position(replay.letter) for replay in replays]
        headers = [[(REPLAYED_HEADER, topic.id.encode())]] * len(marks)
        self._writer.write(Records(topic.dead_letter_topic, marks, [None] * len(marks), headers))
        self._writer.commit()


def _records(topic: str, replays: Sequence[Replayed], stamped: bool) -> Records:
    return Records(
        topic,
        [replay.message.key() for replay in replays],
        [replay.value for replay in replays],
        [_headers(replay, stamped) for replay in replays],
        [replay.letter.partition for replay in replays],
    )


def _headers(replay: Replayed, stamped: bool) -> list[tuple[str, bytes]]:
    """The record's own headers, and the position of the refused record. Other `dsms-…` headers are dropped."""
    given = replay.message.headers() or []
    kept = [(name, value) for name, value in given if name in (OP_HEADER, TS_HEADER) or not name.startswith("dsms-")]
    if stamped and not any(name == TS_HEADER for name, _ in kept):
        kept.append((TS_HEADER, str(replay.message.timestamp()[1]).encode()))
    return [*kept, (REPLAY_HEADER, _position(replay.letter))]


def _position(letter: DeadLetter) -> bytes:
    return f"{letter.partition}/{letter.offset}".encode()


def refused_records(
    settings: KafkaSettings, admin: AdminClient, topic: str, letters: Iterable[DeadLetter]
) -> dict[tuple[int, int], Message]:
    """The refused records that are still in their topic, by partition and offset."""
    wanted = {letter.position: letter.value for letter in letters}
    partitions = set(partitions_of(admin, topic))
    known = [(topic, partition) for partition in {partition for partition, _ in wanted} & partitions]
    first, last = earliest(admin, known), latest(admin, known)
    offsets = defaultdict[int, list[int]](list)
    for partition, offset in sorted(wanted):
        if (key := (topic, partition)) in first and first[key] <= offset < last[key]:
            offsets[partition].append(offset)
    reader = RangeReader(settings)
    try:
        read = (message for part in _ranges(topic, offsets) for message in _readable(reader, part))
        return {
            place: message
            for message in read
            if wanted.get(place := (message.partition(), message.offset())) == _body(message)
        }
    finally:
        reader.close()


def _body(message: Message) -> bytes:
    """The bytes that a dead letter contains: the value of a record, or its key if it has no value."""
    value = message.value()
    return (message.key() or b"") if value is None else value


def _ranges(topic: str, offsets: dict[int, list[int]]) -> Iterator[OffsetRange]:
    """The ranges to read for the ascending offsets of each partition.

    >>> [(part.start, part.end) for part in _ranges("t", {0: [3, 5, 9_000]})]
    [(3, 6), (9000, 9001)]
    """
    for partition, wanted in offsets.items():
        start = at = wanted[0]
        for offset in wanted[1:]:
            if offset - at > _GAP:
                yield OffsetRange(topic, partition, start, at + 1)
                start = offset
            at = offset
        yield OffsetRange(topic, partition, start, at + 1)


def _readable(reader: RangeReader, part: OffsetRange) -> Iterator[Message]:
    """The records of a range, up to the first that is gone."""
    (pieces,) = reader.read([part])
    for piece in pieces:
        if isinstance(piece, DsmsError):
            return
        yield from piece
