"""Reads and writes internal topics. All access goes through this module, which ensures that no record can end a
process.

The header `dsms-by` names the writer of a record, as "cluster/writer". Law of reading: a record is valid if this
cluster wrote it and it can be decoded; every other record is left out, with an alarm.

Older versions of dsms wrote no header. Their records are valid up to the cut-over, a record with the key
`CUT_OVER_KEY`, which the coordinator writes once no such version can write any more. An older version that starts and
reads the cut-over ends, because its records would be invalid. So a downgrade is possible until the cut-over is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import BY_HEADER, internal_topic
from connectors.kafka.client.topics import partitions_of
from connectors.kafka.logs.result_ends import last_instant
from connectors.kafka.records.column_writer import TransactionalWriter
from connectors.kafka.records.pieces import committed_ranges, decided_ranges, pieces
from connectors.kafka.records.record_columns import Headers, Records
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError

#: The key of the record after which every record has the header. It is invalid in every internal topic (an object
#: without a name, a partition that is not a number, a result without a query), so older versions fail to read it.
CUT_OVER_KEY = b"object/"
#: On a record of this cluster without a value: the earlier invalid records under its key have been dealt with.
SETTLES_HEADER = "dsms-settles"
_CUT_OVER_VALUE = b'{"type": "a later version of dsms: the version before can no longer run this cluster"}'
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A valid record: it names this cluster as its writer, or precedes the cut-over."""

    key: bytes
    value: bytes | None
    partition: int
    offset: int
    #: The incarnation that wrote it; None if an older version of dsms did, which did not name writers.
    writer: str | None = None


@dataclass
class Findings:
    """What `InternalLog.read` found in addition to values."""

    #: The keys whose last record is invalid. In a compacted topic, this record replaces the valid one before it.
    left_out: set[bytes] = field(default_factory=set)
    #: The partitions whose cut-over was read.
    cut_over: set[int] = field(default_factory=set)


def undecoded(entry: Entry) -> Entry:
    """Returns the entry itself, without decoding it."""
    return entry


def writer_headers(cluster: str, writer: str) -> Headers:
    """The headers by which a record names its cluster and writer.

    >>> writer_headers("main", "0-17")
    [('dsms-by', b'main/0-17')]
    """
    return [(BY_HEADER, f"{cluster}/{writer}".encode())]


def writer_of(headers: Iterable[tuple[str, bytes | None]] | None) -> str | None:
    """The writer that the headers of a record name; None if they name none."""
    value = dict(headers or []).get(BY_HEADER)
    return None if value is None else value.decode(errors="replace")


def why_foreign(message: Message, cluster: str, cut_over: Container[int]) -> str | None:
    """Why a record is not the cluster's; None if it is. `cut_over` are the partitions whose cut-over was read."""
    writer = dict(message.headers() or []).get(BY_HEADER)
    if writer is None and message.partition() not in cut_over:
        return None
    return why_foreign_writer(writer, cluster)


def why_foreign_writer(writer: bytes | None, cluster: str) -> str | None:
    """Why a record that names this writer is not the cluster's; None if it is.

    >>> why_foreign_writer(b"main/0-17", "main"), why_foreign_writer(None, "main")
    (None, 'it does not name its writer')
    """
    if writer is None:
        return "it does not name its writer"
    if writer.startswith(f"{cluster}/".encode()):
        return None
    return f'written by "{writer.decode(errors="replace")[:100]}", not by cluster "{cluster}"'


def why_foreign_result(message: Message, marked_by: str | None) -> str | None:
    """Why the cluster `marked_by` has not written a record of a result topic or of a table's log; None if it has.

    `marked_by` is None for a topic whose records do not name their writer; then the result is None."""
    return None if marked_by is None else why_foreign(message, marked_by, (message.partition(),))


class InternalLog:
    """An internal topic of a cluster. `writer` names the incarnation that writes to it."""

    def __init__(self, settings: KafkaSettings, cluster: str, purpose: str, alarms: Alarms, writer: str = "") -> None:
        self._settings, self._admin = settings, settings.admin()
        self.cluster, self.topic, self.alarms = cluster, internal_topic(cluster, purpose), alarms
        self._writer_headers = writer_headers(cluster, writer)

    @property
    def admin(self) -> AdminClient:
        """The admin client of the topic."""
        return self._admin

    def records(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Records:
        """Records for this topic that name this cluster and writer."""
        return Records(self.topic, keys, values, [self._writer_headers] * len(values))

    def read(
        self, decode: Callable[[Entry], _T | None], *, decided: bool = False, findings: Findings | None = None
    ) -> Iterator[_T]:
        """The decoded committed records, in the order of each partition; empty if the topic does not exist. `decode`
        returns None for a record without content, and raises Malformed for an invalid one.

        If `decided`, waits until the transactions that are open now have ended, as `decided_ranges` does. Readers see a
        commit a little later than its writer.
        """
        findings = findings if findings is not None else Findings()
        return self.values(self._messages(decided=decided), decode, findings)

    def values(
        self, messages: Iterable[Message], decode: Callable[[Entry], _T | None], findings: Findings
    ) -> Iterator[_T]:
        """Some records of the topic, decoded as by `read`, in their order."""
        for message in messages:
            value = self._read(message, decode, findings)
            if value is not None:
                yield value

    def append(self, writer: TransactionalWriter, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        """Writes records in one transaction; if its outcome is unknown, reads them back. Raises ExternalError if they
        were lost.
        """
        records = self.records(keys, values)
        writer.begin()
        writer.write(records)
        writer.commit()
        if writer.outcome_unknown:
            self.check(records)

    def check(self, written: Records) -> None:
        """Raises ExternalError unless the last committed record of each key is the written one.

        Writers call it after a commit whose outcome is unknown. It waits until the transactions that are open now have
        ended.
        """
        last = {entry.key: entry.value for entry in self.read(undecoded, decided=True)}
        wanted = {key: value for key, value in zip(written.keys, written.values, strict=True) if key != CUT_OVER_KEY}
        if lost := [key for key, value in wanted.items() if key is not None and last.get(key) != value]:
            reason = (
                f'a commit to topic "{self.topic}" whose answer was lost did not take effect: '
                f"{len(lost)} records are missing"
            )
            self.alarms.raise_at(self.topic, reason)
            raise ExternalError(reason, hint="the writer restarts from the committed records")

    def last(self, decode: Callable[[Entry], _T | None], count: int) -> list[_T]:
        """At most `count` decoded records, from the last 2 · `count` offsets of each partition."""
        committed = committed_ranges(self._admin, self.topic)
        ranges = [replace(each, start=max(each.start, each.end - 2 * count)) for each in committed]
        messages = (message for piece in pieces(self._settings, ranges) for message in piece)
        values = (self._read(message, decode, Findings()) for message in messages)
        return [value for value in values if value is not None][-count:]

    def _messages(self, *, decided: bool) -> Iterator[Message]:
        for piece in pieces(self._settings, (decided_ranges if decided else committed_ranges)(self._admin, self.topic)):
            yield from piece

    def _read(self, message: Message, decode: Callable[[Entry], _T | None], findings: Findings) -> _T | None:
        key = message.key() or b""
        try:
            if (reason := why_foreign(message, self.cluster, findings.cut_over)) is not None:
                raise Malformed(reason)
            if key == CUT_OVER_KEY:
                if writer_of(message.headers()) is not None:
                    findings.cut_over.add(message.partition())
                return None
            if _settles(message):
                findings.left_out.discard(key)
                return None
            value = decode(_entry(message))
        except Malformed as error:
            self.alarms.raise_at(self.topic, str(error), message.partition(), message.offset())
            findings.left_out.add(key)
            return None
        findings.left_out.discard(key)
        return value

    def settling_records(self, keys: Sequence[bytes]) -> Records:
        """Records that mark the invalid records of some keys as dealt with. In a compacted topic they replace these
        records.
        """
        headers: Headers = [*self._writer_headers, (SETTLES_HEADER, b"1")]
        return Records(self.topic, keys, [None] * len(keys), [headers] * len(keys))

    def last_instant(self, topic: str, partitions: Collection[int] | None = None) -> int | None:
        """The greatest instant in a result topic, or in some of its partitions."""
        return last_instant(self._settings, self._admin, topic, partitions)

    def missing_cut_over(self, found: Findings | None = None) -> Records | None:
        """The cut-over records for the partitions that have none; None if all have one. `found` are the findings of a
        complete reading; without it, reads the topic.
        """
        if found is None:
            found = Findings()
            for _ in self.read(_nothing, findings=found):
                pass
        missing = [number for number in partitions_of(self._admin, self.topic) if number not in found.cut_over]
        if not missing:
            return None
        count = len(missing)
        marks = [self._writer_headers] * count
        return Records(self.topic, [CUT_OVER_KEY] * count, [_CUT_OVER_VALUE] * count, marks, missing)


def _entry(message: Message) -> Entry:
    """A record with its writer, without the name of the cluster."""
    _, slash, writer = (writer_of(message.headers()) or "").partition("/")
    where = message.partition(), message.offset()
    return Entry(message.key() or b"", message.value(), *where, writer if slash else None)


def _settles(message: Message) -> bool:
    """Whether a record only marks those before it as dealt with; such a record names its writer."""
    headers = dict(message.headers() or [])
    return message.value() is None and SETTLES_HEADER in headers and BY_HEADER in headers


def _nothing(_: Entry) -> None:
    """Decodes nothing, for readings of which only the findings matter."""
