"""The progress topic: which results and dead letters of a fragment are in Kafka already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from connectors.kafka.internal_log import Entry, Findings, InternalLog
from operators.core.decoding import Broken, Int64, Natural, decoded, natural_of, text_of

PROGRESS = "progress"
_LOWEST = -(2**63)


@dataclass(frozen=True, slots=True)
class DeadMark:
    """The dead letters that an owner has written for a partition: all below `offset`, `count` in number."""

    offset: int = 0
    count: int = 0


DeadMarks = Mapping[tuple[str, int], DeadMark]


@dataclass(frozen=True)
class Published:
    """What is in Kafka already: the results of each query below its frontier, and the dead letters of each owner and
    partition below an offset."""

    frontiers: Mapping[str, int]
    dead: DeadMarks

    def upto(self, query: str) -> int:
        """The frontier below which a query's results are published."""
        return self.frontiers.get(query, _LOWEST)


class Progress(msgspec.Struct, frozen=True):
    """The progress record of a result partition: every result of `query` below `frontier` is in it."""

    query: str
    frontier: Int64
    epoch: int


#: A result partition by its record's key, or the owner and the partition of a source whose dead letters are marked.
_Key = bytes | tuple[str, int]


@dataclass(frozen=True)
class ProgressEntry:
    """What a record of the topic says; None: nothing any more."""

    key: _Key
    says: Progress | DeadMark | None


def read_entry(entry: Entry) -> ProgressEntry:
    """What a record says. Raises Broken.

    >>> read_entry(Entry(b"dead/o1/0", b"[5,2]", 0, 0)).says
    DeadMark(offset=5, count=2)
    """
    parts = text_of(entry.key).split("/")
    if len(parts) == 2 and all(parts):
        natural_of(parts[1])
        return ProgressEntry(entry.key, None if entry.value is None else decoded(entry.value, Progress))
    if len(parts) != 3 or parts[0] != "dead" or not parts[1]:
        raise Broken("the key is neither TOPIC/PARTITION nor dead/OWNER/PARTITION")
    mark = None if entry.value is None else DeadMark(*decoded(entry.value, tuple[Natural, Natural]))
    return ProgressEntry((parts[1], natural_of(parts[2])), mark)


def published_of(entries: Iterable[ProgressEntry]) -> Published:
    """What is published of every query that the topic still knows, since no id is used twice, from the entries of the
    topic in their order."""
    last = {entry.key: entry.says for entry in entries}
    frontiers: dict[str, int] = {}
    for says in last.values():
        if isinstance(says, Progress):
            frontiers[says.query] = max(says.frontier, frontiers.get(says.query, says.frontier))
    dead = {key: mark for key, mark in last.items() if isinstance(mark, DeadMark) and isinstance(key, tuple)}
    return Published(frontiers, dead)


@dataclass(frozen=True)
class ProgressReading:
    """What is published, and the records to write again: others that do not count have taken their places."""

    published: Published
    again: Mapping[bytes, bytes]


def read_progress(
    log: InternalLog, results: Mapping[str, str] | None = None, *, decided: bool = False
) -> ProgressReading:
    """What is published. `results` are the topics of the queries that it is wanted for, by id.

    A record that does not count may have taken the place of one that did, since the topic is compacted: of such a query
    the result topic itself tells how far it goes. So nothing is published twice.
    """
    findings = Findings()
    published = published_of(log.read(read_entry, decided=decided, findings=findings))
    doubtful = {key: topic for key in findings.left_out if (topic := _topic(key)) is not None}
    told = {query: log.last_instant(topic) for query, topic in (results or {}).items() if topic in doubtful.values()}
    upto = {query: max(at + 1, published.upto(query)) for query, at in told.items() if at is not None}
    whole = Published({**published.frontiers, **upto}, published.dead)
    by_topic = {topic: query for query, topic in (results or {}).items() if query in whole.frontiers}
    again = {
        key: msgspec.json.encode(Progress(by_topic[topic], whole.upto(by_topic[topic]), 0))
        for key, topic in doubtful.items()
        if topic in by_topic
    }
    for (owner, partition), dead in whole.dead.items():
        if (key := dead_key(owner, partition)) in findings.left_out:
            again[key] = msgspec.json.encode((dead.offset, dead.count))
    return ProgressReading(whole, again)


def read_published(log: InternalLog, results: Mapping[str, str] | None = None, *, decided: bool = False) -> Published:
    """What is published, as `read_progress` says."""
    return read_progress(log, results, decided=decided).published


def dead_key(owner: str, partition: int) -> bytes:
    """The key of the mark of an owner's dead letters."""
    return f"dead/{owner}/{partition}".encode()


def _topic(key: bytes) -> str | None:
    """The result topic of a key, if it is one of a result partition."""
    return key.rpartition(b"/")[0].decode(errors="replace") if key.count(b"/") == 1 else None
