"""The progress topic: which results and dead letters of a fragment are already in Kafka.

Its records are written in the same transactions as the results. The topic is compacted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import msgspec

from connectors.kafka.logs.internal_log import Entry, Findings, InternalLog
from dsms.model.objects import number_of
from dsms.planner.physical.parts.links import ResultPartitions, Shard, is_shared, query_of, share_of
from operators.core.decoding import Int64, Malformed, Natural, decoded, natural_of, text_of

_LOWEST = -(2**63)


@dataclass(frozen=True, slots=True)
class WrittenDeadLetters:
    """The dead letters that an owner has written for a partition: those of all records below `offset`, `count` in
    number."""

    offset: int = 0
    count: int = 0


WrittenByOwner = Mapping[tuple[str, int], WrittenDeadLetters]


@dataclass(frozen=True)
class Published:
    """What is already in Kafka: the results of each query below its frontier, and the dead letters of each owner and
    partition below an offset."""

    frontiers: Mapping[str, int]
    dead: WrittenByOwner
    #: The frontier of each partition, by query, for results whose partitions have different frontiers. Several
    #: fragments wrote such a result before other fragments took it over.
    partition_frontiers: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    #: The later version that has published into the partitions of a query, by the id of the query. The executor of such
    #: a query follows an outdated copy of the catalog.
    overtaken: Mapping[str, str] = field(default_factory=dict)

    def furthest(self, query: str) -> int:
        """The greatest instant below which any part of a query has published, into a partition of its result or of a
        link."""
        parts = [at for id, at in self.frontiers.items() if query_of(id) == query]
        partition_frontiers = [
            at for id, each in self.partition_frontiers.items() if query_of(id) == query for at in each.values()
        ]
        return max([*parts, *partition_frontiers], default=_LOWEST)

    def upto(self, query: str) -> int:
        """The frontier below which a query's results are published."""
        return self.frontiers.get(query, _LOWEST)


class ResultProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress record of a result partition: every result of `query` below `frontier` is in the partition. If
    `apart`, the partitions of its writer have different frontiers, and the record is valid for its own partition only.
    """

    query: Annotated[str, msgspec.Meta(pattern=r"^o[0-9]{1,18}($|[@~])")]
    frontier: Int64
    epoch: int
    apart: bool = False


#: The key of a result partition's record, or the owner of dead letters and the source partition.
_Key = bytes | tuple[str, int]


@dataclass(frozen=True)
class ProgressEntry:
    """A decoded record of the topic. `content` is None if the record deletes its key."""

    key: _Key
    content: ResultProgress | WrittenDeadLetters | None


def read_entry(entry: Entry) -> ProgressEntry:
    """Decodes a record. Raises Malformed if it is invalid.

    >>> read_entry(Entry(b"dead/o1/0", b"[5,2]", 0, 0)).content
    WrittenDeadLetters(offset=5, count=2)
    >>> read_entry(Entry(b"t/0", b'{"query": "x", "frontier": 5, "epoch": 1}', 0, 0))
    Traceback (most recent call last):
    operators.core.decoding.Malformed: Expected `str` matching regex '^o[0-9]{1,18}($|[@~])' - at `$.query`
    """
    parts = text_of(entry.key).split("/")
    if len(parts) == 2 and all(parts):
        natural_of(parts[1])
        return ProgressEntry(entry.key, None if entry.value is None else decoded(entry.value, ResultProgress))
    if len(parts) != 3 or parts[0] != "dead" or not parts[1]:
        raise Malformed("the key is neither TOPIC/PARTITION nor dead/OWNER/PARTITION")
    written = None if entry.value is None else WrittenDeadLetters(*decoded(entry.value, tuple[Natural, Natural]))
    return ProgressEntry((parts[1], natural_of(parts[2])), written)


#: The last entry of each key of the topic.
LastEntries = dict[_Key, ResultProgress | WrittenDeadLetters | None]
Entries = Mapping[_Key, ResultProgress | WrittenDeadLetters | None]


def published_in_log(entries: Iterable[ProgressEntry]) -> Published:
    """What is published, from the entries of the topic in their order. It includes dropped queries that the topic still
    has; these do no harm, since no id is used twice."""
    return _published_in({entry.key: entry.content for entry in entries})


#: The greatest instant found in result partitions whose progress record is invalid, by the key of that record.
FoundInstants = Mapping[bytes, int]


def published_in_partitions(
    last: Entries, results: Mapping[str, ResultPartitions], instants: FoundInstants | None = None
) -> Published:
    """What is published, for queries that publish into the result partitions `results`, given by query id."""
    published = _published_in(last)
    frontiers, partition_frontiers = dict(published.frontiers), {}
    for query, places in results.items():
        keys = {part: result_key(places.topic, part) for part in places.partitions}
        upto = {part: at for part, key in keys.items() if (at := _upto(query, key, last, instants or {})) is not None}
        if _equally_far(query, keys.values(), last):
            frontiers[query] = max(upto.values())
        elif upto:
            partition_frontiers[query] = {part: upto.get(part, _LOWEST) for part in keys}
            frontiers[query] = min(partition_frontiers[query].values())
    published = replace(published, frontiers=frontiers, partition_frontiers=partition_frontiers)
    return with_whole_queries(replace(published, overtaken=dict(_overtaken(last, results))), results)


def _overtaken(last: Entries, results: Mapping[str, ResultPartitions]) -> Iterator[tuple[str, str]]:
    """The queries into whose partitions a later query has published, each with that query. Two queries have one result
    topic only if one has replaced the other, and ids grow in the order of creation."""
    for id, (topic, parts) in results.items():
        query = query_of(id)
        found = (last.get(result_key(topic, part)) for part in parts)
        writers = {query_of(content.query) for content in found if isinstance(content, ResultProgress)}
        if later := [writer for writer in writers if number_of(writer) > number_of(query)]:
            yield query, max(later, key=number_of)


def _upto(query: str, key: bytes, last: Entries, instants: FoundInstants) -> int | None:
    """The instant below which a query, or parts of it, have published into a partition: according to the progress
    record, or, if that is invalid, to the records in the partition itself."""
    found = _progress_of(query, key, last)
    known = [found.frontier] if found is not None else []
    return max([*known, *([instants[key] + 1] if key in instants else [])], default=None)


def _equally_far(query: str, keys: Iterable[bytes], last: Entries) -> bool:
    """Whether all partitions were published in the same transactions, so that the record of one gives the frontier of
    all. Partitions that other fragments have published before may have different frontiers."""
    found = [content for key in keys if (content := _progress_of(query, key, last)) is not None]
    return bool(found) and all(content.query == query and not content.apart for content in found)


def _progress_of(query: str, key: bytes, last: Entries) -> ResultProgress | None:
    content = last.get(key)
    return content if isinstance(content, ResultProgress) and query_of(content.query) == query_of(query) else None


def _published_in(last: Entries) -> Published:
    frontiers: dict[str, int] = {}
    for content in last.values():
        if isinstance(content, ResultProgress):
            frontiers[content.query] = max(content.frontier, frontiers.get(content.query, content.frontier))
    dead = {key: each for key, each in last.items() if isinstance(each, WrittenDeadLetters) and isinstance(key, tuple)}
    return Published(frontiers, dead)


def with_whole_queries(published: Published, results: Iterable[str]) -> Published:
    """Adds the frontiers of whole queries that several fragments run: the least frontier of all shards of the query,
    once all are known."""
    shares: dict[str, dict[Shard, int]] = {}
    for id in results:
        if (found := share_of(id)) is not None and id in published.frontiers:
            shares.setdefault(found[0], {})[found[1]] = published.frontiers[id]
    whole = {query: min(known.values()) for query, known in shares.items() if len(known) == next(iter(known)).of}
    return replace(published, frontiers={**published.frontiers, **whole})


@dataclass(frozen=True)
class ProgressReading:
    """What is published, and the records to write again, because invalid records have overwritten them."""

    published: Published
    to_write: Mapping[bytes, bytes]


def read_progress(
    log: InternalLog,
    results: Mapping[str, ResultPartitions] | None = None,
    wholes: Mapping[str, ResultPartitions] | None = None,
    *,
    decided: bool = False,
) -> ProgressReading:
    """What is published. `results` are the result partitions of the queries for which it is needed, by id; if these are
    parts of queries, `wholes` are the result partitions of the whole queries.

    Since the topic is compacted, an invalid record may have removed a valid one with the same key. For such a partition
    the frontier is read from the result topic itself, so nothing is published twice.
    """
    findings, results = Findings(), results or {}
    last = {entry.key: entry.content for entry in log.read(read_entry, decided=decided, findings=findings)}
    instants = dict(found_in_results(log, [*results.values(), *(wholes or {}).values()], findings.left_out))
    published = published_in_partitions(last, {**(wholes or {}), **results}, instants)
    return ProgressReading(published, dict(_records_to_repair(published, results, findings.left_out)))


def found_in_results(
    log: InternalLog, places: Iterable[ResultPartitions], left_out: Collection[bytes]
) -> Iterator[tuple[bytes, int]]:
    """The greatest instants in the partitions whose progress records are invalid. Reports have no topics."""
    found = ((topic, part) for topic, parts in places if not is_shared(topic) for part in parts)
    wanted = {(topic, part) for topic, part in found if result_key(topic, part) in left_out}
    for topic, part in wanted:
        if (at := log.last_instant(topic, {part})) is not None:
            yield result_key(topic, part), at


def _records_to_repair(
    published: Published, results: Mapping[str, ResultPartitions], left_out: Collection[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """The records to write again."""
    for query, (topic, parts) in results.items():
        for part in parts if query in published.frontiers else ():
            if (key := result_key(topic, part)) in left_out:
                yield key, msgspec.json.encode(progress_of(query, part, published.upto(query), 0, published))
    for (owner, partition), dead in published.dead.items():
        if (key := dead_key(owner, partition)) in left_out:
            yield key, msgspec.json.encode((dead.offset, dead.count))


def progress_of(query: str, partition: int, frontier: int, epoch: int, published: Published) -> ResultProgress:
    """The progress record of a result partition after an epoch that publishes a query's results below a frontier. A
    partition that was published further before keeps its greater frontier."""
    partition_frontiers = published.partition_frontiers.get(query, {})
    apart = any(floor > frontier for floor in partition_frontiers.values())
    return ResultProgress(query, max(frontier, partition_frontiers.get(partition, frontier)), epoch, apart)


def read_published(
    log: InternalLog, results: Mapping[str, ResultPartitions] | None = None, *, decided: bool = False
) -> Published:
    """What is published, as `read_progress` finds it."""
    return read_progress(log, results, decided=decided).published


def result_key(topic: str, partition: int) -> bytes:
    """The key of the progress of a result partition."""
    return f"{topic}/{partition}".encode()


def dead_key(owner: str, partition: int) -> bytes:
    """The key of the record about an owner's written dead letters."""
    return f"dead/{owner}/{partition}".encode()
