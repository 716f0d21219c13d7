"""The progress topic: which results and dead letters of a fragment are in Kafka already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from connectors.kafka.internal_log import Entry, Findings, InternalLog
from dsms.physical.parts.links import ResultPlaces, Share, query_of, share_of
from operators.core.decoding import Broken, Int64, Natural, decoded, natural_of, text_of

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

    def furthest(self, query: str) -> int:
        """The greatest instant below which any part of a query has published, into a partition of its result or of a
        link."""
        parts = [at for id, at in self.frontiers.items() if query_of(id) == query]
        floors = [at for id, each in self.floors.items() if query_of(id) == query for at in each.values()]
        return max([*parts, *floors], default=_LOWEST)

    def upto(self, query: str) -> int:
        """The frontier below which a query's results are published."""
        return self.frontiers.get(query, _LOWEST)


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress record of a result partition: every result of `query` below `frontier` is in it. `apart` says that
    its writer's partitions are not equally far, so each record counts for its own partition alone."""

    query: str
    frontier: Int64
    epoch: int
    apart: bool = False


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


#: The greatest instant in result partitions, by the keys of their progress, where this does not count.
Told = Mapping[bytes, int]


def published_for(last: Entries, results: Mapping[str, ResultPlaces], told: Told | None = None) -> Published:
    """What is published, for those who publish in some places, by id."""
    published = _published(last)
    frontiers, floors = dict(published.frontiers), {}
    for query, places in results.items():
        keys = {part: result_key(places.topic, part) for part in places.partitions}
        upto = {part: at for part, key in keys.items() if (at := _upto(query, key, last, told or {})) is not None}
        if _equally_far(query, keys.values(), last):
            frontiers[query] = max(upto.values())
        elif upto:
            floors[query] = {part: upto.get(part, _LOWEST) for part in keys}
            frontiers[query] = min(floors[query].values())
    return with_whole_queries(replace(published, frontiers=frontiers, floors=floors), results)


def _upto(query: str, key: bytes, last: Entries, told: Told) -> int | None:
    """The instant below which a query, or others that were parts of it, have published into a partition: as the
    progress says, and the partition itself where the progress does not count."""
    found = _progress_of(query, key, last)
    known = [found.frontier] if found is not None else []
    return max([*known, *([told[key] + 1] if key in told else [])], default=None)


def _equally_far(query: str, keys: Iterable[bytes], last: Entries) -> bool:
    """Whether all partitions were published in the same transactions, so one tells the frontier of all. Those that
    other fragments have published before need not be equally far."""
    found = [says for key in keys if (says := _progress_of(query, key, last)) is not None]
    return bool(found) and all(says.query == query and not says.apart for says in found)


def _progress_of(query: str, key: bytes, last: Entries) -> Progress | None:
    says = last.get(key)
    return says if isinstance(says, Progress) and query_of(says.query) == query_of(query) else None


def _published(last: Entries) -> Published:
    frontiers: dict[str, int] = {}
    for says in last.values():
        if isinstance(says, Progress):
            frontiers[says.query] = max(says.frontier, frontiers.get(says.query, says.frontier))
    dead = {key: mark for key, mark in last.items() if isinstance(mark, DeadMark) and isinstance(key, tuple)}
    return Published(frontiers, dead)


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
    log: InternalLog,
    results: Mapping[str, ResultPlaces] | None = None,
    wholes: Mapping[str, ResultPlaces] | None = None,
    *,
    decided: bool = False,
) -> ProgressReading:
    """What is published. `results` are the topics of the queries that it is wanted for, by id; `wholes` those of the
    queries of which these are parts.

    A record that does not count may have taken the place of one that did, since the topic is compacted: of such a
    partition the result topic itself tells how far it goes. So nothing is published twice.
    """
    findings, results = Findings(), results or {}
    last = {entry.key: entry.says for entry in log.read(read_entry, decided=decided, findings=findings)}
    told = dict(_told(log, [*results.values(), *(wholes or {}).values()], findings.left_out))
    published = published_for(last, {**(wholes or {}), **results}, told)
    return ProgressReading(published, dict(_again(published, results, findings.left_out)))


def _told(log: InternalLog, places: Iterable[ResultPlaces], left_out: Collection[bytes]) -> Iterator[tuple[bytes, int]]:
    """How far the partitions are whose progress does not count."""
    wanted = {(topic, part) for topic, parts in places for part in parts if result_key(topic, part) in left_out}
    for topic, part in wanted:
        if (at := log.last_instant(topic, {part})) is not None:
            yield result_key(topic, part), at


def _again(
    published: Published, results: Mapping[str, ResultPlaces], left_out: Collection[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """The records to write again."""
    for query, (topic, parts) in results.items():
        for part in parts if query in published.frontiers else ():
            if (key := result_key(topic, part)) in left_out:
                yield key, msgspec.json.encode(progress_of(query, part, published.upto(query), 0, published))
    for (owner, partition), dead in published.dead.items():
        if (key := dead_key(owner, partition)) in left_out:
            yield key, msgspec.json.encode((dead.offset, dead.count))


def progress_of(query: str, partition: int, frontier: int, epoch: int, published: Published) -> Progress:
    """The progress of a result partition after an epoch that publishes a query's results below a frontier: what was
    published before stays so."""
    floors = published.floors.get(query, {})
    apart = any(floor > frontier for floor in floors.values())
    return Progress(query, max(frontier, floors.get(partition, frontier)), epoch, apart)


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
