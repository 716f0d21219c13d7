"""Writes refused records to their topic again. The records and the marks that say so are one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.config import KafkaSettings
from connectors.kafka.dead_letters import DeadLetter
from connectors.kafka.epoch_writer import EpochWriter
from connectors.kafka.names import OP_HEADER, REPLAY_HEADER, REPLAYED_HEADER, TS_HEADER, transactional_id
from connectors.kafka.range_reader import OffsetRange, RangeReader
from connectors.kafka.record_columns import Records
from connectors.kafka.topics import earliest, latest, partitions_of
from operators.core.errors import DsmsError

#: Records that stand closer to each other are read together.
_GAP = 1_000
_BY_KEY = -1


@dataclass(frozen=True, slots=True)
class Replayed:
    """A letter to replay, and the value that its record gets."""

    letter: DeadLetter
    value: bytes


def write_again(
    settings: KafkaSettings, admin: AdminClient, cluster: str, topic: str, letters: str, replays: Sequence[Replayed]
) -> None:
    """Writes the records to `topic`, each to its partition with its key and headers as far as Kafka still has them, and
    marks their letters in the topic `letters`: all of it, or nothing. A writer that began before is fenced."""
    found = _originals(settings, admin, topic, [replay.letter for replay in replays])
    partitions = set(partitions_of(admin, topic))
    writer = EpochWriter(settings, transactional_id(cluster, "replay"))
    try:
        writer.begin()
        writer.write(_records(topic, replays, found, partitions))
        marks = [_key(replay.letter) for replay in replays]
        headers = [[(REPLAYED_HEADER, b"1")]] * len(marks)
        writer.write(Records(letters, marks, [None] * len(marks), headers))
        writer.commit()
    finally:
        writer.close()


def _records(
    topic: str, replays: Sequence[Replayed], found: dict[tuple[int, int], Message], partitions: set[int]
) -> Records:
    messages = [found.get(replay.letter.place) for replay in replays]
    return Records(
        topic,
        [None if message is None else message.key() for message in messages],
        [replay.value for replay in replays],
        [_headers(replay.letter, message) for replay, message in zip(replays, messages, strict=True)],
        [at if (at := replay.letter.partition) in partitions else _BY_KEY for replay in replays],
    )


def _headers(letter: DeadLetter, message: Message | None) -> list[tuple[str, bytes]]:
    """The record's own headers, and whence it comes; another system's `dsms-…` headers mean nothing here."""
    given = message.headers() or [] if message is not None else []
    kept = [(name, value) for name, value in given if name in (OP_HEADER, TS_HEADER) or not name.startswith("dsms-")]
    return [*kept, (REPLAY_HEADER, _key(letter))]


def _key(letter: DeadLetter) -> bytes:
    return f"{letter.partition}/{letter.offset}".encode()


def _originals(
    settings: KafkaSettings, admin: AdminClient, topic: str, letters: Iterable[DeadLetter]
) -> dict[tuple[int, int], Message]:
    """The refused records that are still in the topic, by their places."""
    wanted = {letter.place: letter.value for letter in letters}
    places = {(topic, partition) for partition, _ in wanted}
    known = [place for place in places if place[1] in set(partitions_of(admin, topic))]
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
            if wanted.get(place := (message.partition(), message.offset())) == (message.value() or b"")
        }
    finally:
        reader.close()


def _ranges(topic: str, offsets: dict[int, list[int]]) -> Iterator[OffsetRange]:
    """What has to be read for the offsets of each partition, which ascend.

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
    """The records of a range until those that are gone."""
    (pieces,) = reader.read([part])
    for piece in pieces:
        if isinstance(piece, DsmsError):
            return
        yield from piece
