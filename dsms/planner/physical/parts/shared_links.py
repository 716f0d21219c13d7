"""Shared links: divided queries on the same fragments compute equal parts once, and write their links once.

A part that writes a shared link belongs to all queries that hold the link. So it reports no rows in fault. For each of
the queries, every fragment runs a report above the same operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from connectors.kafka.client.names import internal_topic
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Source
from dsms.model.shared_links import SharedLink
from dsms.planner.physical.builder import Builder
from dsms.planner.physical.lane import Output
from dsms.planner.physical.parts.cut import DividedQuery, SegmentPart, parts
from dsms.planner.physical.parts.links import Link, Shard, faults_of
from dsms.planner.physical.parts.subplans import NOTHING, nothing_above
from operators.streams.stream_output import StreamOutput


def link_digests(whole: DividedQuery) -> dict[int, str]:
    """The digest of the link of each cut exchange, by its number.

    The digest names the dataflow of the part that writes the link, where the links that it reads are named by their own
    digests, and the partitions that each shard reads. So equal digests mean equal elements.
    """
    digests: dict[int, str] = {}
    for exchange in sorted(whole.cuts, key=lambda at: whole.flow.vertices[whole.flow.exchanges[at].producer].stage):
        digests[exchange] = _digest(exchange, whole, digests)
    return digests


def _digest(exchange: int, whole: DividedQuery, below: Mapping[int, str]) -> str:
    named = {at: SharedLink(digest, "", digest) for at, digest in below.items()}
    part, builder = SegmentPart(replace(whole, shared=named), Shard(0, len(whole.query.shares)), exchange), Builder()
    output = part.output(builder)
    sources = [(each.number, each.id, each.start) for each in part.sources if not isinstance(each, Link)]
    computed = builder.dataflow().keys[output.vertex], output.schema, sources
    return fingerprint((*computed, _assignment(whole), whole.version))


def _assignment(whole: DividedQuery) -> tuple[int, int]:
    """How the partitions of sources are assigned to shards: by their number modulo the first number, then modulo the
    second. If the shards divide the result partitions evenly, the number of these makes no difference."""
    shards, partitions = len(whole.query.shares), whole.query.partitions
    return (shards if partitions % shards == 0 else partitions), shards


def with_shared_links(whole: DividedQuery) -> DividedQuery:
    """The query with the shared links that it holds. If it does not find all of its links among them, because another
    version of dsms plans it differently, its links are its own."""
    if not whole.query.shared_links:
        return whole
    held = {link.digest: link for link in whole.query.shared_links}
    digests = link_digests(whole)
    if not held.keys() >= {*digests.values()}:
        return whole
    return replace(whole, shared={exchange: held[digest] for exchange, digest in digests.items()})


def parts_of_shard(whole: DividedQuery, share: Shard) -> Iterator[SegmentPart | LinkReport]:
    """All that a fragment runs for a shard: the parts of the query, and the reports on those of shared links."""
    for part in parts(whole, share):
        yield part
        if part.shared is not None:
            yield LinkReport(part, part.shared)


@dataclass(frozen=True)
class LinkReport:
    """Reports the rows in fault below a shared link for one of the queries that hold it."""

    part: SegmentPart
    link: SharedLink
    #: It sends nothing, and reads no shared subplans.
    target, links = None, ()

    @property
    def id(self) -> str:
        """The id under which it is planned and its progress is stored; it begins with the id of the query."""
        return faults_of(self.part.whole.query.id, f"{self.link.digest[:12]}.{self.part.share.number}")

    @property
    def progress_ids(self) -> tuple[str, ...]:
        """The ids under which the progress of the report is stored."""
        return (self.id,)

    @property
    def stopped(self) -> bool:
        """Whether it makes no progress, because the query makes none."""
        return self.part.stopped

    @property
    def sources(self) -> list[Source]:
        """The sources and links that it reads."""
        return self.part.sources

    @property
    def origins(self) -> Mapping[int, Source]:
        """The sources, by number, whose records cause the rows in fault."""
        return self.part.origins

    @property
    def topics(self) -> dict[str, int]:
        """The topics of the links that it reads, with their numbers of partitions."""
        return {topic: count for topic, count in self.part.topics.items() if topic != self.link.topic}

    def output(self, builder: Builder) -> Output:
        """Adds a result without rows above the part."""
        nothing = nothing_above(self.part.port(builder), builder)
        result = builder.add(StreamOutput((), True), [nothing], NOTHING)
        return Output(
            self.id, self.part.whole.query.first_name, result.vertex, NOTHING, (), True, reports_on=(self.id,)
        )


def topic_of_shared_link(cluster: str, query: str, name: str) -> str:
    """The topic of a shared link, which is named after the first query that held it.

    >>> topic_of_shared_link("main", "o5", "ab12v7")
    '_dsms.main.shared.o5.ab12v7'
    """
    return internal_topic(cluster, f"shared.{query}.{name}")
