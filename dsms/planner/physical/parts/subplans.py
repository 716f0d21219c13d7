"""Shared subplans: parts of plans that one fragment computes for the queries of several fragments.

A fragment that reads a shared subplan replaces the plan node by a link, an internal topic with the node's elements. The
elements keep their instants and orders, so the records of the results are the same as if the fragment computed the node
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from connectors.kafka.client.names import internal_topic
from dsms.model import logical, properties
from dsms.model.fingerprint import fingerprint
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.kept_state import keeps_state
from dsms.model.objects import Source
from dsms.model.replace_inputs import with_inputs
from dsms.model.subplans import SharedSubplan
from dsms.planner.physical.builder import Builder, Port, Received
from dsms.planner.physical.lane import Output
from dsms.planner.physical.lower import lower
from dsms.planner.physical.lower.sides import union_all
from dsms.planner.physical.parts.links import Link, LinkTarget, Shard, faults_of, sender_of
from dsms.planner.physical.parts.send import RECEIVER, Send
from operators.expressions import Literal
from operators.relational.filter import Filter
from operators.relational.project import Project

#: A link has one sender and one receiver: all fragments that read it read its single partition.
_SENDER = Shard(0, 1)
#: The numbers of these links are above those of sources and of the links of divided queries.
_FIRST_NUMBER, _NUMBER_DIGITS = 1 << 60, 14
#: The columns of a result without rows.
NOTHING = pa.schema([pa.field("nothing", pa.bool_(), False)])


@memoized_by_identity(4_096)
def digest_of(node: logical.Node) -> str:
    """A name for a part of a plan. Equal parts of all queries have one name, also after partitions were added to their
    sources, or other fragments write the dead letters of these."""
    return fingerprint(_without_life(node))[:24]


def shared_digest(node: logical.Node) -> str | None:
    """The digest of a node that is worth a link, if it can be read from another fragment at all; None for other
    nodes."""
    return digest_of(node) if _is_worth_a_link(node) else None


def _is_worth_a_link(node: logical.Node) -> bool:
    """Whether a node keeps state. A tagger does, but reading its elements from Kafka costs more than tagging them."""
    return bool(properties.inputs(node)) and keeps_state(node)


def _without_life(node: logical.Node) -> logical.Node:
    """The node over sources without what changes while they are read."""
    if isinstance(node, logical.StreamScan):
        return replace(node, source=Source(name="", id=node.source.id, sql="", columns=(), topic=""))
    return with_inputs(node, tuple(map(_without_life, properties.inputs(node))))


def shareable(node: logical.Node) -> bool:
    """Whether a fragment can read the node from another one, and whether that is worth a link.

    Its constants, its promises and its settings must not depend on the rest of the query.
    """
    return _is_worth_a_link(node) and all(map(_depends_on_logs_alone, properties.walk(node)))


def _depends_on_logs_alone(node: logical.Node) -> bool:
    if isinstance(node, logical.StreamScan):
        return not (node.promises or node.source.constraints or node.source.table)
    return not isinstance(node, logical.Shed | logical.Members)


@dataclass(frozen=True)
class SubplanLink:
    """The link of a shared subplan that a plan reads in place of `node`."""

    subplan: SharedSubplan
    node: logical.Node

    @cached_property
    def received(self) -> Received:
        """The link as a source, for the plans that read it."""
        builder = Builder()
        port = lowered(self.node, (), builder)
        subplan, sources = self.subplan, properties.sources(self.node)
        link = Link(
            name=subplan.name,
            id=subplan.id,
            sql="",
            columns=(),
            topic=subplan.topic,
            idle_ms=None,
            partitions=1,
            number=_FIRST_NUMBER + int(fingerprint(subplan.id)[:_NUMBER_DIGITS], 16),
            elements=port.schema,
            below=tuple(source.id for source in sources if not source.table),
        )
        return Received(link, port.ends)


def links_of(subplans: Iterable[SharedSubplan], node: logical.Node) -> tuple[SubplanLink, ...]:
    """The links for the parts of a plan that other fragments compute. A subplan that the plan does not contain is left
    out: another version of dsms may plan the query differently."""
    wanted = {subplan.digest: subplan for subplan in subplans}
    if not wanted:
        return ()
    found = {digest: part for part in properties.walk(node) if (digest := shared_digest(part)) is not None}
    return tuple(SubplanLink(subplan, found[digest]) for digest, subplan in wanted.items() if digest in found)


def sources_read(node: logical.Node, links: Sequence[SubplanLink]) -> Sequence[Source]:
    """The sources that a plan reads itself, and the links that it reads in place of parts of it."""
    if not links:
        return properties.sources(node)
    by_node = {fingerprint(link.node): link for link in links}
    read: dict[str, Source] = {}
    for part in properties.walk(node, lambda part: fingerprint(part) not in by_node):
        if (link := by_node.get(fingerprint(part))) is not None:
            read[link.subplan.id] = link.received.link
        elif isinstance(part, logical.StreamScan):
            read |= {source.id: source for source in properties.sources(part)}
    return list(read.values())


def lowered(node: logical.Node, links: Sequence[SubplanLink], builder: Builder) -> Port:
    """The port of a plan that reads some of its parts through links."""
    builder.receive({fingerprint(link.node): link.received for link in links})
    builder.scope = frozenset(source.number for source in sources_read(node, links))
    return lower(node, builder)


@dataclass(frozen=True)
class SubplanPart:
    """The work of a fragment for a shared subplan: it computes the node, over the links that it reads itself, and sends
    the elements to the link."""

    subplan: SharedSubplan
    node: logical.Node
    links: tuple[SubplanLink, ...]
    #: Whether it makes no progress, because its reader makes none.
    stopped: bool = False

    @property
    def id(self) -> str:
        """The id under which the part is planned and its progress is stored; it begins with the id of the link."""
        return sender_of(self.subplan.id)

    @property
    def moved(self) -> bool:
        """Whether another fragment computed the subplan at first."""
        return self.subplan.moved_at_version > 0

    @property
    def former_fragment(self) -> str | None:
        """The fragment that still has the state of the part; None if it has not moved."""
        return self.subplan.former_fragment

    @property
    def target(self) -> LinkTarget:
        """The link to which it sends its elements."""
        return LinkTarget(self.subplan.topic, _SENDER)

    @property
    def sources(self) -> Sequence[Source]:
        """The sources and links that it reads."""
        return sources_read(self.node, self.links)

    @property
    def topics(self) -> dict[str, int]:
        """The topics of the links that it reads and writes, with their numbers of partitions."""
        return {link.subplan.topic: 1 for link in self.links} | {self.subplan.topic: 1}

    def output(self, builder: Builder) -> Output:
        """Adds the part to a dataflow."""
        port = lowered(self.node, self.links, builder)
        sent = builder.add(Send(None, _SENDER), [port], port.schema.append(pa.field(RECEIVER, pa.int64())))
        return Output(self.id, self.subplan.name, sent.vertex, port.schema, (), True, reports=False, link=self.target)


@dataclass(frozen=True)
class ReportPart:
    """Reports the rows in fault below shared subplans of a fragment for a query of another fragment, which does not see
    them. One result reports them all, so that a row in fault below several of them is reported once."""

    query: str
    name: str
    subplans: tuple[SubplanPart, ...]
    #: Whether it makes no progress, because the query makes none.
    stopped: bool = False

    @property
    def id(self) -> str:
        """The id under which the part is planned; it begins with the id of the query."""
        return self.progress_ids[0]

    @property
    def progress_ids(self) -> tuple[str, ...]:
        """The ids under which the progress of the report is stored."""
        return tuple(report_id(self.query, part.subplan) for part in self.subplans)

    @property
    def moved(self) -> bool:
        """Whether another fragment computed one of the subplans at first."""
        return any(part.moved for part in self.subplans)

    @property
    def former_fragment(self) -> str | None:
        """The fragment that still has the state of the report; None if not all of its subplans have moved from
        there."""
        former = {part.former_fragment for part in self.subplans}
        return former.pop() if len(former) == 1 else None

    #: It sends nothing, so it writes no link.
    target = None

    @property
    def links(self) -> tuple[SubplanLink, ...]:
        """The links that the subplans read."""
        return tuple(link for part in self.subplans for link in part.links)

    @property
    def topics(self) -> dict[str, int]:
        """The topics of the links that it reads, with their numbers of partitions."""
        return {link.subplan.topic: 1 for link in self.links}

    @property
    def sources(self) -> list[Source]:
        """The sources and links that it reads."""
        return list({source.id: source for part in self.subplans for source in part.sources}.values())

    def output(self, builder: Builder) -> Output:
        """Adds a result without rows above the nodes."""
        ports = [nothing_above(lowered(part.node, part.links, builder), builder) for part in self.subplans]
        nothing = union_all(ports, NOTHING, builder)
        return Output(self.id, self.name, nothing.vertex, NOTHING, (), True, reports_on=self.progress_ids)


def report_id(query: str, subplan: SharedSubplan) -> str:
    """The id under which it is stored how far the rows in fault below a subplan are reported for a query. A report on
    several subplans is planned under the id of the first one."""
    return faults_of(query, subplan.digest[:12])


def nothing_above(port: Port, builder: Builder) -> Port:
    """No rows, after all rows of a port have been computed."""
    false = Literal(False, pa.bool_())
    none = builder.add(Filter(false), [port], port.schema)
    return builder.add(Project((("nothing", false),)), [none], NOTHING)


def topic_of_subplan(cluster: str, query: str, name: str) -> str:
    """The topic of the link of a shared subplan, which is named after the query that is the first to read it.

    >>> topic_of_subplan("main", "o5", "ab12v7")
    '_dsms.main.subplan.o5.ab12v7'
    """
    return internal_topic(cluster, f"subplan.{query}.{name}")
