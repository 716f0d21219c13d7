"""The progress topic: which results and dead letters of a fragment are in Kafka already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from connectors.kafka.internal_log import Entry, Findings, InternalLog
from dsms.physical.parts.links import ResultPlaces, Share, query_of, share_of
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
    #: Of results whose partitions are not equally far: the frontier of each, by query and partition. They were written
    #: by several fragments, before others took them over.
    floors: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

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


#: The last entry of each key of the topic.
Entries = Mapping[_Key, Progress | DeadMark | None]


def published_of(entries: Iterable[ProgressEntry]) -> Published:
    """What is published of every query that the topic still knows, since no id is used twice, from the entries of the
    topic in their order."""
    return _published({entry.key: entry.says for entry in entries})


def published_for(last: Entries, results: Mapping[str, ResultPlaces]) -> Published:
    """What is published, for those who publish in some places, by id."""
    return with_whole_queries(_taken_over(_published(last), last, results), results)


def _published(last: Entries) -> Published:
    frontiers: dict[str, int] = {}
    for says in last.values():
        if isinstance(says, Progress):
            frontiers[says.query] = max(says.frontier, frontiers.get(says.query, says.frontier))
    dead = {key: mark for key, mark in last.items() if isinstance(mark, DeadMark) and isinstance(key, tuple)}
    return Published(frontiers, dead)


def _taken_over(published: Published, last: Entries, results: Mapping[str, ResultPlaces]) -> Published:
    """With what is known of results that other fragments have written before: their progress stands under other ids of
    the same query, and their partitions need not be equally far."""
    frontiers, floors = dict(published.frontiers), {}
    for query, places in results.items():
        found = {part: last.get(result_key(places.topic, part)) for part in places.partitions}
        same = {
            part: says.frontier if isinstance(says, Progress) and query_of(says.query) == query_of(query) else _LOWEST
            for part, says in found.items()
        }
        written = {says.query for part, says in found.items() if isinstance(says, Progress) and same[part] != _LOWEST}
        if written - {query}:
            floors[query] = same
            frontiers[query] = min(same.values())
    return replace(published, frontiers=frontiers, floors=floors)


def with_whole_queries(published: Published, results: Iterable[str]) -> Published:
    """With the frontiers of the queries that several fragments run: the least of those of all shares, once all are
    known."""
    shares: dict[str, dict[Share, int]] = {}
    for id in results:
        if (found := share_of(id)) is not None and id in published.frontiers:
            shares.setdefault(found[0], {})[found[1]] = published.frontiers[id]
    whole = {query: min(known.values()) for query, known in shares.items() if len(known) == next(iter(known)).of}
    return replace(published, frontiers={**published.frontiers, **whole})


@dataclass(frozen=True)
class ProgressReading:
    """What is published, and the records to write again: others that do not count have taken their places."""

    published: Published
    again: Mapping[bytes, bytes]


def read_progress(
    log: InternalLog, results: Mapping[str, ResultPlaces] | None = None, *, decided: bool = False
) -> ProgressReading:
    """What is published. `results` are the topics of the queries that it is wanted for, by id.

    A record that does not count may have taken the place of one that did, since the topic is compacted: of such a query
    the result topic itself tells how far it goes. So nothing is published twice.
    """
    findings = Findings()
    last = {entry.key: entry.says for entry in log.read(read_entry, decided=decided, findings=findings)}
    published = published_for(last, results or {})
    places = results or {}
    keys = {result_key(topic, part): query for query, (topic, parts) in places.items() for part in parts}
    writers = {key: keys[key] for key in findings.left_out & keys.keys()}
    told = {query: log.last_instant(*places[query]) for query in writers.values()}
    upto = {query: max(at + 1, published.upto(query)) for query, at in told.items() if at is not None}
    whole = with_whole_queries(replace(published, frontiers={**published.frontiers, **upto}), places)
    again = {
        key: msgspec.json.encode(Progress(query, whole.upto(query), 0))
        for key, query in writers.items()
        if query in whole.frontiers
    }
    for (owner, partition), dead in whole.dead.items():
        if (key := dead_key(owner, partition)) in findings.left_out:
            again[key] = msgspec.json.encode((dead.offset, dead.count))
    return ProgressReading(whole, again)


def read_published(
    log: InternalLog, results: Mapping[str, ResultPlaces] | None = None, *, decided: bool = False
) -> Published:
    """What is published, as `read_progress` says."""
    return read_progress(log, results, decided=decided).published


def result_key(topic: str, partition: int) -> bytes:
    """The key of the progress of a result partition."""
    return f"{topic}/{partition}".encode()


def dead_key(owner: str, partition: int) -> bytes:
    """The key of the mark of an owner's dead letters."""
    return f"dead/{owner}/{partition}".encode()
