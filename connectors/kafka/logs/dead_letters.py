"""Reads dead letters, which are refused records with their positions and reasons, and finds out which were replayed."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import ERROR_HEADER, REPLAYED_HEADER, SOURCE_ID_HEADER
from connectors.kafka.client.topics import earliest, latest, partitions_of
from connectors.kafka.records.pieces import decided_ranges, pieces
from connectors.kafka.records.range_reader import read_whole
from operators.core.decoding import Malformed, natural_of


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A refused record, with its position in its topic.

    `query` is the query that refused it because one of its expressions has no value on the row; None if the source
    refused it.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    query: str | None
    value: bytes
    #: The id of the source; "" in dead letters of older versions of dsms, which did not write it.
    source_id: str = ""

    @property
    def position(self) -> tuple[int, int]:
        """The partition and the offset of the refused record."""
        return self.partition, self.offset

    def document(self) -> dict[str, Any]:
        """The dead letter as a document for display."""
        place = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        return {"reason": self.reason, **place, "query": self.query, **_shown(self.value)}


class ReplayMark(NamedTuple):
    """States that a refused record was replayed. `topic` is the id of the record's topic, which differs for a
    re-created topic of the same name; if the brokers have no topic ids, it is the name.
    """

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class ShownLetters:
    """The dead letters of a source that are shown. `marked` is the `topic` of its `ReplayMark`s; `versions` are the ids
    of the versions of the source, each of which refuses records on its own. With `alone`, records that only others
    refused are left out."""

    topic: str
    marked: str
    versions: frozenset[str]
    alone: bool = False

    def once(self, letters: Iterable[DeadLetter]) -> list[DeadLetter]:
        """The dead letters, without those of records that a version refused again.

        >>> def letter(offset: int, source: str) -> DeadLetter:
        ...     return DeadLetter("t", 0, offset, "why", None, b"", source)
        >>> shown = ShownLetters("d", "t", frozenset({"o1", "o5"}))
        >>> [each.offset for each in shown.once([letter(3, "o1"), letter(4, "o1"), letter(3, "o5"), letter(3, "o0")])]
        [3, 4, 3]
        """
        first: dict[object, DeadLetter] = {}
        for at, letter in enumerate(letters):
            own = letter.source_id in self.versions
            if letter.query is not None or not self.alone or own:
                first.setdefault(letter.position if own and letter.query is None else at, letter)
        return list(first.values())


def last_dead_letters(
    settings: KafkaSettings, admin: AdminClient, shown: ShownLetters, limit: int, alarms: Alarms
) -> list[dict[str, Any]]:
    """At most `limit` of the last dead letters in a dead-letter topic, as documents, oldest first.

    The entry `replayed` of a document says whether the topic has a ReplayMark for the record. A record that is not a
    dead letter is left out and raises an alarm.
    """
    topic = shown.topic
    wanted = [(topic, partition) for partition in partitions_of(admin, topic)]
    first, last = earliest(admin, wanted), latest(admin, wanted)
    back, read_completely = 2 * limit, False  # twice, because the marker that ends a transaction also takes an offset
    letters, replayed = list[DeadLetter](), set[ReplayMark]()
    while len(letters) < limit and not read_completely:
        ranges = [(key[1], max(first[key], last[key] - back), last[key]) for key in wanted if last[key] > first[key]]
        found, replayed = _sorted(read_whole(settings, topic, ranges) if ranges else [], topic, alarms)
        letters = shown.once(found)
        back, read_completely = 2 * back, all(first[key] >= last[key] - back for key in wanted)
    return [
        letter.document() | {"replayed": ReplayMark(shown.marked, *letter.position) in replayed}
        for letter in letters[-limit:]
    ]


def _sorted(messages: list[Message], topic: str, alarms: Alarms) -> tuple[list[DeadLetter], set[ReplayMark]]:
    """Separates dead letters from the marks of replayed records; raises an alarm for each other record."""
    letters, replayed = list[DeadLetter](), set[ReplayMark]()
    for message in messages:
        try:
            if (mark := replay_mark_of(message)) is not None:
                replayed.add(mark)
            else:
                letters.append(dead_letter_of(message))
        except Malformed as error:
            alarms.raise_at(topic, str(error), message.partition(), message.offset())
    return letters, replayed


class DeadLetterLog:
    """The dead letters of one source, up to the end of the dead-letter topic at the time of creation of this object.
    Creating it waits until all open transactions on the topic are committed or aborted.
    """

    def __init__(self, settings: KafkaSettings, admin: AdminClient, topic: str, alarms: Alarms) -> None:
        self._settings, self._topic, self._alarms = settings, topic, alarms
        self._ranges = decided_ranges(admin, topic)

    def replayed(self) -> Iterator[set[ReplayMark]]:
        """The marks of replayed records, piece by piece."""
        return (marks for _, marks in self._pieces())

    def dead_letters(self) -> Iterator[list[DeadLetter]]:
        """All dead letters, piece by piece."""
        return (letters for letters, _ in self._pieces())

    def _pieces(self) -> Iterator[tuple[list[DeadLetter], set[ReplayMark]]]:
        return (_sorted(piece, self._topic, self._alarms) for piece in pieces(self._settings, self._ranges))


def dead_letter_of(message: Message) -> DeadLetter:
    """The dead letter in a record. Raises Malformed if the record is not one."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers() or []}
    if ERROR_HEADER not in headers:
        raise Malformed("not a dead letter: it has no reason")
    return DeadLetter(
        headers.get("dsms-topic", ""),
        natural_of(headers.get("dsms-partition", "")),
        natural_of(headers.get("dsms-offset", "")),
        headers[ERROR_HEADER],
        headers.get("dsms-query"),
        message.value() or b"",
        headers.get(SOURCE_ID_HEADER, ""),
    )


def replay_mark_of(message: Message) -> ReplayMark | None:
    """The mark of a replayed record; None for other records. Raises Malformed if the mark is invalid."""
    source = next((value for name, value in message.headers() or [] if name == REPLAYED_HEADER), None)
    if source is None:
        return None
    partition, _, offset = (message.key() or b"").decode(errors="replace").partition("/")
    return ReplayMark(source.decode(errors="replace"), natural_of(partition), natural_of(offset))


def _shown(value: bytes) -> dict[str, str]:
    """The refused value as text, or in base64 if it is not UTF-8."""
    try:
        return {"value": value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value).decode()}
