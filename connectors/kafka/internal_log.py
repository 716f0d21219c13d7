"""Internal topics: the one way in which they are written and read, so that nothing in them can end a process.

Who wrote a record says the header `dsms-by`, "cluster/writer". The law of reading: a record counts if our cluster wrote
it and it can be decoded; every other one is left out, with an alarm.

Versions of dsms before this one wrote no header. Their records count up to the record `CUT_OVER`, which the coordinator
writes once no such version can write any more; that record ends an older version at its start, since what it wrote
would not count. So going back to the version before is possible until then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.kafka.column_writer import TransactionalWriter
from connectors.kafka.config import KafkaSettings
from connectors.kafka.names import BY_HEADER, internal_topic
from connectors.kafka.pieces import committed, pieces, settled
from connectors.kafka.record_columns import Headers, Records
from connectors.kafka.result_ends import last_instant
from connectors.kafka.topics import partitions_of
from operators.core.alarms import Alarms
from operators.core.decoding import Broken
from operators.core.errors import ExternalError

#: The key of the record after which every record has the header. It is an object without a name, a partition that is no
#: number and a result without a query: no version that does not know it can read it.
CUT_OVER = b"object/"
#: On a record of ours without a value: what was before it under its key, and did not count, is known and settled.
SETTLES_HEADER = "dsms-settles"
_CUT_OVER_VALUE = b'{"type": "a later version of dsms: the version before can no longer run this cluster"}'
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A record that its writer marked as ours, or that was written before there were marks."""

    key: bytes
    value: bytes | None
    partition: int
    offset: int
    #: Which incarnation of the cluster wrote it; None: a version without marks.
    writer: str | None = None


@dataclass
class Findings:
    """What a reading found beside values."""

    #: The keys whose last record does not count. In a compacted topic it takes the place of the one before it.
    left_out: set[bytes] = field(default_factory=set)
    #: The partitions whose cut-over was read.
    cut_over: set[int] = field(default_factory=set)


def as_it_is(entry: Entry) -> Entry:
    """Decodes nothing: the entry itself, whatever it says."""
    return entry


def mark(cluster: str, writer: str) -> Headers:
    """The headers by which a writer marks a record.

    >>> mark("main", "0-17")
    [('dsms-by', b'main/0-17')]
    """
    return [(BY_HEADER, f"{cluster}/{writer}".encode())]


def writer_of(headers: Iterable[tuple[str, bytes | None]] | None) -> str | None:
    """Who wrote a record; None if it has no mark."""
    value = dict(headers or []).get(BY_HEADER)
    return None if value is None else value.decode(errors="replace")


def foreign(message: Message, cluster: str, cut_over: Container[int]) -> str | None:
    """Why a record is not of the cluster; None if it is. `cut_over` are the partitions whose cut-over is before it."""
    writer = writer_of(message.headers())
    if writer is None:
        return "no writer is named" if message.partition() in cut_over else None
    named, slash, _ = writer.partition("/")
    return None if slash and named == cluster else f'written by "{writer[:100]}", not by cluster "{cluster}"'


def foreign_result(message: Message, marked_by: str | None) -> str | None:
    """Why a record of a result or of the log of a table is not of the cluster that marks all of them; None if it is, or
    if they have no marks."""
    return None if marked_by is None else foreign(message, marked_by, (message.partition(),))


class InternalLog:
    """An internal topic of a cluster. `writer` names the incarnation that writes."""

    def __init__(self, settings: KafkaSettings, cluster: str, purpose: str, alarms: Alarms, writer: str = "") -> None:
        self._settings, self._admin = settings, settings.admin()
        self.cluster, self.topic, self.alarms = cluster, internal_topic(cluster, purpose), alarms
        self._mark = mark(cluster, writer)

    @property
    def admin(self) -> AdminClient:
        """The client that asks about topics."""
        return self._admin

    def records(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Records:
        """Records of this topic, marked as ours."""
        return Records(self.topic, keys, values, [self._mark] * len(values))

    def read(
        self, decode: Callable[[Entry], _T | None], *, decided: bool = False, findings: Findings | None = None
    ) -> Iterator[_T]:
        """What the committed records hold, in the order of each partition; none when the topic does not exist.
        `decode` gives None for a record that says nothing, and raises Broken for one that does not count.

        With `decided` transactions that are open now are waited for, as by `settled`: one that its writer knows to be
        committed may seem open a little longer.
        """
        findings = findings if findings is not None else Findings()
        return self.values(self._messages(decided=decided), decode, findings)

    def values(
        self, messages: Iterable[Message], decode: Callable[[Entry], _T | None], findings: Findings
    ) -> Iterator[_T]:
        """What some of its records hold, in their order, as `read` gives it."""
        for message in messages:
            value = self._read(message, decode, findings)
            if value is not None:
                yield value

    def append(self, writer: TransactionalWriter, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        """Writes records in a transaction of their own, and reads them again where it is in doubt how that ended."""
        records = self.records(keys, values)
        writer.begin()
        writer.write(records)
        writer.commit()
        if writer.in_doubt:
            self.check(records)

    def check(self, written: Records) -> None:
        """Raises ExternalError unless the last committed record of each key is what was written of it; a transaction
        that is open now is waited for. For a commit whose end was in doubt: before its writer relies on it."""
        last = {entry.key: entry.value for entry in self.read(as_it_is, decided=True)}
        wanted = {key: value for key, value in zip(written.keys, written.values, strict=True) if key != CUT_OVER}
        if lost := [key for key, value in wanted.items() if key is not None and last.get(key) != value]:
            reason = f'a commit whose answer was lost is not in topic "{self.topic}": {len(lost)} records are missing'
            self.alarms.raise_at(self.topic, reason)
            raise ExternalError(reason, hint="its writer starts again from what is there")

    def last(self, decode: Callable[[Entry], _T | None], count: int) -> list[_T]:
        """What the last records of each partition hold, at most so many of each that count."""
        whole = committed(self._admin, self.topic)
        ranges = [replace(each, start=max(each.start, each.end - 2 * count)) for each in whole]
        messages = (message for piece in pieces(self._settings, ranges) for message in piece)
        values = (self._read(message, decode, Findings()) for message in messages)
        return [value for value in values if value is not None][-count:]

    def _messages(self, *, decided: bool) -> Iterator[Message]:
        for piece in pieces(self._settings, (settled if decided else committed)(self._admin, self.topic)):
            yield from piece

    def _read(self, message: Message, decode: Callable[[Entry], _T | None], findings: Findings) -> _T | None:
        key = message.key() or b""
        try:
            if (reason := foreign(message, self.cluster, findings.cut_over)) is not None:
                raise Broken(reason)
            if key == CUT_OVER:
                if writer_of(message.headers()) is not None:
                    findings.cut_over.add(message.partition())
                return None
            if _settles(message):
                findings.left_out.discard(key)
                return None
            value = decode(_entry(message))
        except Broken as error:
            self.alarms.raise_at(self.topic, str(error), message.partition(), message.offset())
            findings.left_out.add(key)
            return None
        findings.left_out.discard(key)
        return value

    def settling(self, keys: Sequence[bytes]) -> Records:
        """Records that settle what does not count under some keys; in a compacted topic they remove it."""
        headers: Headers = [*self._mark, (SETTLES_HEADER, b"1")]
        return Records(self.topic, keys, [None] * len(keys), [headers] * len(keys))

    def last_instant(self, topic: str, partitions: Collection[int] | None = None) -> int | None:
        """The greatest instant in a result topic, or in some of its partitions."""
        return last_instant(self._settings, self._admin, topic, partitions)

    def missing_cut_over(self, found: Findings | None = None) -> Records | None:
        """The cut-over for the partitions that have none, given what a reading found; None if all have it."""
        if found is None:
            found = Findings()
            for _ in self.read(_nothing, findings=found):
                pass
        missing = [number for number in partitions_of(self._admin, self.topic) if number not in found.cut_over]
        if not missing:
            return None
        count = len(missing)
        marks = [self._mark] * count
        return Records(self.topic, [CUT_OVER] * count, [_CUT_OVER_VALUE] * count, marks, missing)


def _entry(message: Message) -> Entry:
    """A record with its writer, without the name of the cluster."""
    _, slash, writer = (writer_of(message.headers()) or "").partition("/")
    where = message.partition(), message.offset()
    return Entry(message.key() or b"", message.value(), *where, writer if slash else None)


def _settles(message: Message) -> bool:
    """Whether a record says only that those before it are settled. It names its writer."""
    headers = dict(message.headers() or [])
    return message.value() is None and SETTLES_HEADER in headers and BY_HEADER in headers


def _nothing(_: Entry) -> None:
    """Decodes nothing: of records it matters only who wrote them."""
