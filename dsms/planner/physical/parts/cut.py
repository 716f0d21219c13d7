"""Cuts the dataflow of a query into the parts that its shards run.

The dataflow is cut at every exchange by keys, where elements move between shards. The vertices between two cuts are a
*segment*. Each shard runs parts of every segment. Parts of the first segment read some partitions of the sources; parts
of later segments read links. Each part ends with the result, or with a Send for one exchange that leaves its segment.
Elements keep their instants and orders, so the records of the result are the same as for the undivided query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import pyarrow as pa

from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Query, Source, number_of
from dsms.model.shared_links import SharedLink
from dsms.planner.physical.builder import Builder, Port
from dsms.planner.physical.dataflow import Dataflow, Exchange, Feed, Vertex, marks_of
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.parts.links import Link, LinkTarget, Shard, link_id, link_topics, received, share_id
from dsms.planner.physical.parts.send import (
    RECEIVER,
    ByKeys,
    ByResultKey,
    ByResultOrder,
    Division,
    Send,
    Silent,
    ToOwn,
)
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import RetractEnds
from operators.streams.stream_output import StreamOutput

#: Operators that hold back elements at or above the frontier themselves.
_BUFFERS = (Reorder, StreamOutput)
#: Routings with which elements stay in their shard.
_OWN = ("source", "stay")
#: The numbers of a query's own links begin above those of sources; a query has at most `_LINKS` links. Those of shared
#: links begin above them.
_FIRST_NUMBER, _LINKS = 1 << 16, 1 << 10
_FIRST_SHARED, _NUMBER_DIGITS = 1 << 61, 14


@dataclass(frozen=True)
class DividedQuery:
    """A query that several fragments run. Its dataflow has one result and is compiled with `divisible`. `cluster` is
    part of the topic names of its links. `version` identifies the hash function, on which the contents of links depend.
    """

    query: Query
    lane: Lane
    cluster: str
    version: str
    #: The links that other queries may share, by the number of their exchange; {}: the links are this query's own.
    shared: Mapping[int, SharedLink] = field(default_factory=dict)

    @property
    def flow(self) -> Dataflow:
        """The dataflow."""
        return self.lane.flow

    @property
    def output(self) -> Output:
        """The result of the query."""
        return self.lane.outputs[0]

    @cached_property
    def _crossed(self) -> frozenset[int]:
        """The stages that begin a segment."""
        return frozenset(exchange.stage for exchange in self.flow.exchanges if exchange.by not in _OWN)

    def segment(self, stage: int) -> int:
        """The number of the segment that contains a stage."""
        return sum(at <= stage for at in self._crossed)

    def cut(self, exchange: Exchange) -> bool:
        """Whether an exchange is between two segments."""
        return self.segment(self.flow.vertices[exchange.producer].stage) != self.segment(exchange.stage)

    @cached_property
    def cuts(self) -> list[int]:
        """The exchanges that become links, by number."""
        return [number for number, exchange in enumerate(self.flow.exchanges) if self.cut(exchange)]

    def into(self, segment: int) -> list[int]:
        """The links that a segment reads."""
        return [number for number in self.cuts if self.segment(self.flow.exchanges[number].stage) == segment]

    def reached(self, vertex: int) -> frozenset[int]:
        """The links that a vertex reads, itself or through other vertices of its segment."""
        return self._reached[vertex]

    @cached_property
    def _reached(self) -> list[frozenset[int]]:
        reached: list[frozenset[int]] = []
        for vertex in self.flow.vertices:
            links = frozenset(feed.exchange for feed in vertex.inputs if feed.exchange in self.cuts)
            within = (reached[feed.vertex] for feed in vertex.inputs if feed.exchange not in self.cuts)
            reached.append(frozenset(at for at in links if at is not None).union(*within))
        return reached

    def name(self, exchange: int, share: Shard) -> str:
        """The name of a link. It differs from the name of any link that carries other elements."""
        return fingerprint((self.flow.queues[exchange], share.of, self.version, self.query.divided_at_version))[:12]

    def link(self, exchange: int, share: Shard) -> Link:
        """The link of an exchange, as a source for the shard that reads it."""
        name, id, topic, number = self._identity(exchange, share)
        return Link(
            name=name,
            id=id,
            sql="",
            columns=(),
            topic=topic,
            idle_ms=None,
            partitions=share.of**2,
            number=number,
            only=received(share),
            elements=self.flow.vertices[self.flow.exchanges[exchange].producer].schema,
        )

    def _identity(self, exchange: int, share: Shard) -> tuple[str, str, str, int]:
        """The name, the id, the topic and the number of the link of an exchange."""
        if (shared := self.shared.get(exchange)) is not None:
            number = _FIRST_SHARED + int(fingerprint(shared.id)[:_NUMBER_DIGITS], 16)
            return shared.name, shared.id, shared.topic, number
        query, name = self.query, self.name(exchange, share)
        number = _FIRST_NUMBER + number_of(query.id) * _LINKS + exchange
        return f"{query.name} {name}", link_id(query.id, name), link_topics(self.cluster, query.id) + name, number

    def division(self, exchange: int) -> Division | None:
        """How the elements of an exchange are divided among the shards; None: each shard gets all elements."""
        by, output, flow = self.flow.exchanges[exchange].by, self.output, self.flow
        readers = [vertex for vertex in flow.vertices if any(feed.exchange == exchange for feed in vertex.inputs)]
        if flow.vertices[output.vertex] in readers:
            assert len(readers) == 1, "only the result reads what is exchanged for it"
            return self._by_result()
        if by == "all":
            return None
        return ToOwn() if by in _OWN else ByKeys(tuple(by))

    def _by_result(self) -> Division:
        output, query = self.output, self.query
        if not output.keys:
            return ByResultOrder(query.partitions)
        schema = pa.schema([output.schema.field(name) for name in output.keys])
        return ByResultKey(output.keys, schema, query.format, query.key_schema_id, query.partitions)


@dataclass(frozen=True)
class SegmentPart:
    """The part of a segment that a shard runs, up to an exchange that leaves the segment or, if `exchange` is None, up
    to the result.
    """

    whole: DividedQuery
    share: Shard
    exchange: int | None
    #: It reads no shared subplans.
    links = ()

    @property
    def id(self) -> str:
        """The id under which it is planned and its progress is stored: that of its link or query, with its shard."""
        if self.exchange is None:
            return share_id(self.whole.query.id, self.share)
        return f"{self.whole.link(self.exchange, self.share).id}.{self.share.number}"

    @property
    def shared(self) -> SharedLink | None:
        """The link that it writes, if other queries may share it."""
        return None if self.exchange is None else self.whole.shared.get(self.exchange)

    @property
    def target(self) -> LinkTarget | None:
        """The link to which it sends its elements; None if they are the result."""
        if self.exchange is None:
            return None
        return LinkTarget(self.whole.link(self.exchange, self.share).topic, self.share)

    @property
    def vertex(self) -> int:
        """The vertex of the whole dataflow at which the part ends."""
        flow = self.whole.flow
        return self.whole.output.vertex if self.exchange is None else flow.exchanges[self.exchange].producer

    @property
    def stopped(self) -> bool:
        """Whether it makes no progress, because the query makes none."""
        return self.whole.query.stopped

    @property
    def segment(self) -> int:
        """The segment to which it belongs, by number."""
        return self.whole.segment(self.whole.flow.vertices[self.vertex].stage)

    @cached_property
    def sources(self) -> list[Source]:
        """The sources that it reads, restricted to its partitions, or links: all that its vertices wait for."""
        if self.segment == 0:
            leaves = self.whole.flow.vertices[self.vertex].leaves
            return [self.restricted(self.whole.lane.sources[number]) for number in sorted(leaves)]
        return self.links_for(self.vertex)

    def links_for(self, at: int) -> list[Source]:
        """The links for which a vertex waits. If they are shared, those that it reads, so that other queries can have
        an equal vertex. Otherwise, or if it reads none, those into its segment whose elements depend on its sources."""
        if self.whole.shared and (reached := self.whole.reached(at)):
            return [self.whole.link(number, self.share) for number in sorted(reached)]
        flow, vertex = self.whole.flow, self.whole.flow.vertices[at]
        return [
            self.whole.link(number, self.share)
            for number in self.whole.into(self.whole.segment(vertex.stage))
            if flow.vertices[flow.exchanges[number].producer].leaves & vertex.leaves
        ]

    @property
    def topics(self) -> dict[str, int]:
        """The topics of the links that it reads and writes, with their numbers of partitions."""
        read = [source.topic for source in self.sources if isinstance(source, Link)]
        return dict.fromkeys(read if self.target is None else [*read, self.target.topic], self.share.of**2)

    @property
    def origins(self) -> dict[int, Source]:
        """The sources, by number, whose records cause its elements."""
        return self.whole.lane.sources

    def restricted(self, source: Source) -> Source:
        """A source, restricted to the partitions that the shard reads: those whose result partition it publishes."""
        count = self.whole.query.partitions
        only = tuple(part for part in range(source.partitions) if self.share.holds(part % count))
        return msgspec.structs.replace(source, only=only)

    def output(self, builder: Builder) -> Output:
        """Adds the part to a dataflow, which reads all that the part waits for: it may run in a lane of its own."""
        port = self.port(builder)
        if self.exchange is None:
            return replace(self.whole.output, id=self.id, vertex=port.vertex, share=self.share)
        send = Send(self.whole.division(self.exchange), self.share)
        columns = port.schema.append(pa.field(RECEIVER, pa.int64()))
        sent = builder.add(send, [port], columns)
        name = self.whole.query.first_name if self.shared is None else self.shared.name
        own = self.shared is None
        return Output(self.id, name, sent.vertex, port.schema, (), True, reports=own, link=self.target)

    def port(self, builder: Builder) -> Port:
        """Adds the vertices of the part to a dataflow, up to that at which it ends."""
        for source in self.sources:
            builder.leaf(source)
        return _Graft(self, builder).port(self.vertex)


def parts(whole: DividedQuery, share: Shard) -> list[SegmentPart]:
    """All parts that a shard runs."""
    return [SegmentPart(whole, share, exchange) for exchange in (*whole.cuts, None)]


@dataclass
class _Graft:
    """Copies the vertices of a part from the whole dataflow into that of a lane.

    If links are shared, a vertex waits only for the links that it reads. So an operator with several inputs may wait
    for more than they do: elements at or above its frontier are held back before it.
    """

    part: SegmentPart
    builder: Builder
    made: dict[tuple[int, frozenset[int]], Port] = field(default_factory=dict)

    def port(self, at: int, reader: frozenset[int] | None = None) -> Port:
        """The port of a vertex of the whole dataflow. `reader` are the leaves for which its reader waits."""
        leaves = self._leaves(at, reader)
        if (at, leaves) not in self.made:
            self.made[at, leaves] = self._copied(at, leaves)
        return self.made[at, leaves]

    def _copied(self, at: int, leaves: frozenset[int]) -> Port:
        vertex = self.part.whole.flow.vertices[at]
        if vertex.leaf is not None:
            return self._leaf(vertex.leaf)
        operator, ports = vertex.operator, [self._input(feed, vertex, leaves) for feed in vertex.inputs]
        if vertex.single and self.part.share.number:
            operator, ports = Silent(vertex.schema), []
        return self.builder.add_waiting_for(operator, ports, vertex.schema, leaves, single=vertex.single)

    def _leaf(self, leaf: int) -> Port:
        sources = self.part.whole.lane.sources
        if leaf in sources:
            return self.builder.leaf(self.part.restricted(sources[leaf]))
        source = self.part.restricted(sources[marks_of(leaf)])
        self.builder.leaf(source)
        return self.builder.marks(source)

    def _input(self, feed: Feed, vertex: Vertex, leaves: frozenset[int]) -> Port:
        """The input of a vertex that waits for `leaves`. Elements that a link brings from one sender may be ahead of
        those from another sender, so they wait until the frontiers of all senders have passed them.
        """
        whole = self.part.whole
        if feed.exchange is None:
            return self._within(feed.vertex, vertex, leaves)
        exchange = whole.flow.exchanges[feed.exchange]
        if not whole.cut(exchange):
            return self.port(feed.vertex)  # the builder adds the exchange within the shard again
        link = self.builder.leaf(whole.link(feed.exchange, self.part.share))
        received = replace(link, via=None if exchange.by in _OWN else exchange.by)
        return received if isinstance(vertex.operator, _BUFFERS) else self._held_back(received, leaves)

    def _within(self, at: int, vertex: Vertex, leaves: frozenset[int]) -> Port:
        """The input from a vertex of the same stage."""
        port = self.port(at, leaves)
        if not self._waits_for_own_links(vertex) or isinstance(vertex.operator, _BUFFERS):
            return port
        return port if self._leaves(at, leaves) == leaves else self._held_back(port, leaves)

    def _held_back(self, port: Port, leaves: frozenset[int]) -> Port:
        return self.builder.add_waiting_for(Reorder(), [port], port.schema, leaves)

    def _waits_for_own_links(self, vertex: Vertex) -> bool:
        return bool(self.part.whole.shared) and self.part.whole.segment(vertex.stage) > 0

    def _leaves(self, at: int, reader: frozenset[int] | None) -> frozenset[int]:
        """The sources or, in later segments, the links for which a vertex waits, by number. What holds back elements
        for its reader, or reads no link, waits for the same as the reader."""
        vertex = self.part.whole.flow.vertices[at]
        if self.part.whole.segment(vertex.stage) == 0:
            return vertex.leaves
        follows = isinstance(vertex.operator, Reorder | RetractEnds) or not self.part.whole.reached(at)
        if reader is not None and follows and self._waits_for_own_links(vertex):
            return reader
        return frozenset(link.number for link in self.part.links_for(at))
