"""Builds a dataflow: places operators in stages, and inserts the exchanges that they need.

A port is the output of a vertex with its physical properties. It is `partitioned` by some columns if rows that are
equal in these columns are on one target. It is `released` if it has only elements below the frontier. It has `ends` if
an element may have an end; otherwise a retraction ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Source
from dsms.planner.physical.dataflow import Dataflow, Exchange, Feed, Keys, Routing, Vertex, marks_of
from dsms.planner.physical.parts.links import Link
from operators.expressions import faultless
from operators.relational.filter import Filter
from operators.relational.project import Project
from operators.streams.relay import Relay
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import RetractEnds

Partitioning = frozenset[Keys]
UNKNOWN: Partitioning = frozenset()
SINGLE: Partitioning = frozenset({()})


@dataclass(frozen=True)
class Port:
    """The output of a vertex. `via` is the routing of an exchange that must be inserted before its consumer."""

    vertex: int
    schema: pa.Schema
    partitioned: Partitioning = UNKNOWN
    released: bool = True
    ends: bool = False
    via: Routing | None = None

    def renamed(self, names: Mapping[str, str]) -> Partitioning:
        """The partitioning after a renaming of columns. A partitioning by a column without a new name is lost."""
        remaining = [keys for keys in self.partitioned if all(key in names for key in keys)]
        return frozenset(tuple(names[key] for key in keys) for keys in remaining)


@dataclass(frozen=True)
class Received:
    """The elements of a plan node that another fragment computes: the link that brings them, as a source, and whether
    they may have ends."""

    link: Source
    ends: bool


class Builder:
    """Collects vertices; equal vertices over equal inputs become one vertex.

    `divisible` means that several fragments will run the dataflow, which may have an element on different targets. Then
    elements never stay on their target from one stage to the next, but are always exchanged, by the columns by which
    they are partitioned.
    """

    def __init__(self, *, divisible: bool = False) -> None:
        self.divisible = divisible
        #: The sources that are read, by number.
        self.sources: dict[int, Source] = {}
        #: By the number of a source and a clustered column: the port of the records that keep the promise of this
        #: column.
        self.clustered: dict[tuple[int, str], Port] = {}
        #: The sources of the plan that is being lowered.
        self.scope: frozenset[int] = frozenset()
        self._vertices: list[Vertex] = []
        self._exchanges: dict[Exchange, int] = {}
        self._known: dict[str, int] = {}
        #: The plan nodes that other fragments compute for the plan that is being lowered, by their fingerprints.
        self.received: Mapping[str, Received] = {}
        #: The port of each lowered logical node, by the node's fingerprint.
        self.lowered: dict[str, Port] = {}
        self._lowered_over: dict[frozenset[str], dict[str, Port]] = {frozenset(): self.lowered}

    def dataflow(self) -> Dataflow:
        """The dataflow built so far."""
        return Dataflow(tuple(self._vertices), tuple(self._exchanges))

    def receive(self, received: Mapping[str, Received]) -> None:
        """Makes the following plans read some of their nodes through links. Nodes that were lowered over other links
        are lowered again, because they may be above different ones."""
        self.received = received
        ids = frozenset(each.link.id for each in received.values())
        self.lowered = self._lowered_over.setdefault(ids, {})

    def receives(self, node: logical.Node) -> bool:
        """Whether the plan that is being lowered reads a node through a link."""
        return bool(self.received) and fingerprint(node) in self.received

    def leaf(self, source: Source) -> Port:
        """The records of a source."""
        self.sources[source.number] = _from_the_first(source, self.sources.get(source.number))
        leaves = frozenset({source.number})
        vertex = self._vertex(Vertex(None, (), 0, source.schema, leaves, leaf=source.number))
        return Port(vertex, source.schema, released=False)

    def marks(self, source: Source) -> Port:
        """The marks of a source: elements with lower bounds of the values to come in its ordered columns."""
        columns = pa.schema([pa.field(ordered.column, pa.int64()) for ordered in source.ordered])
        number = source.number
        vertex = self._vertex(Vertex(None, (), 0, columns, frozenset({number}), leaf=marks_of(number)))
        return Port(vertex, columns, released=False)

    def constant(self, operator: Any, columns: pa.Schema) -> Port:
        """A relation without inputs, on target 0."""
        return Port(self._vertex(Vertex(operator, (), 1, columns, self.scope, single=True)), columns, SINGLE)

    def route(self, port: Port, keys: Keys) -> Port:
        """The port, exchanged such that rows that are equal in `keys` are on one target; the port itself if they
        already are.
        """
        if any(set(known) <= set(keys) for known in port.partitioned):
            return port
        return replace(port, via=keys, partitioned=frozenset({keys}))

    def release(
        self, ports: Sequence[Port], *, changes: bool = False, leaves: frozenset[int] | None = None
    ) -> list[Port]:
        """The inputs of one operator, whose elements are held back until the operator's frontier passes them.

        This frontier is the least frontier of the inputs, or of `leaves` if given. If `changes`, ends become
        retractions.
        """
        waiting = self.leaves(ports) if leaves is None else leaves
        return [self._released(port, waiting, changes=changes) for port in ports]

    def stage(self, port: Port) -> int:
        """The stage of a port's vertex."""
        return self._vertices[port.vertex].stage

    def leaves(self, ports: Sequence[Port]) -> frozenset[int]:
        """The sources that the ports depend on, by number."""
        return frozenset().union(*(self._vertices[port.vertex].leaves for port in ports))

    def add(self, operator: Any, ports: Sequence[Port], columns: pa.Schema, *, single: bool = False) -> Port:
        """Adds a vertex for an operator. An operator with state runs on the targets."""
        return self.add_waiting_for(operator, ports, columns, self.leaves(ports), single=single)

    def add_waiting_for(
        self, operator: Any, ports: Sequence[Port], columns: pa.Schema, leaves: frozenset[int], *, single: bool = False
    ) -> Port:
        """Adds a vertex whose frontier is the least frontier of `leaves`."""
        ports = [self._held_back(port) if self._is_link(port) and _may_fail(operator) else port for port in ports]
        stage = max(self._stage(port) for port in ports) if ports else 1
        if stage == 0 and (single or operator.traces()):
            stage = 1
        feeds = tuple(self._feed(port, stage) for port in ports)
        return Port(self._vertex(Vertex(operator, feeds, stage, columns, leaves, single=single)), columns)

    def _is_link(self, port: Port) -> bool:
        """Whether the port has elements of a link in the stage that reads them."""
        return self.stage(port) == 0 and any(isinstance(self.sources.get(leaf), Link) for leaf in self.leaves([port]))

    def _held_back(self, port: Port) -> Port:
        """The port, released in a later stage. Where a link is read, a row in fault would become a dead letter of the
        link's record, not of the record that caused the row."""
        return self._released(port, self.leaves([port]), changes=False)

    def _released(self, port: Port, leaves: frozenset[int], *, changes: bool) -> Port:
        if changes and port.ends:
            return replace(
                self.add_waiting_for(RetractEnds(), [port], port.schema, leaves), partitioned=port.partitioned
            )
        if port.released and self.leaves([port]) == leaves:
            return port
        released = self.add_waiting_for(Reorder(), [port], port.schema, leaves)
        return replace(released, partitioned=port.partitioned, ends=port.ends)

    def _stage(self, port: Port) -> int:
        return self._vertices[port.vertex].stage + (port.via is not None)

    def _feed(self, port: Port, stage: int) -> Feed:
        """The input through which a vertex in `stage` reads a port, with an exchange if one is needed."""
        own_stage = self._vertices[port.vertex].stage
        if port.via is None and own_stage == stage:
            return Feed(port.vertex)
        routing: Routing = port.via if port.via is not None else self._default_routing(port) if own_stage else "source"
        exchange = Exchange(self._relayed(port, stage) if own_stage else port.vertex, stage, routing)
        return Feed(exchange.producer, self._exchanges.setdefault(exchange, len(self._exchanges)))

    def _default_routing(self, port: Port) -> Routing:
        """The routing to a later stage for elements that are already on the right targets."""
        if not self.divisible:
            return "stay"
        return min(port.partitioned, default=tuple(port.schema.names))

    def _relayed(self, port: Port, stage: int) -> int:
        """The vertex of a port if it is in the stage right before `stage`, otherwise a relay for it in that stage.

        Exchanges do not skip a stage, because its inputs may wait, and elements that bypass it would be ahead of its
        frontier.
        """
        relayed = self._vertices[port.vertex]
        following = relayed.stage + 1
        if following == stage:
            return port.vertex
        feed = self._feed(replace(port, via=None), following)
        relay = Vertex(Relay(), (feed,), following, relayed.schema, relayed.leaves, single=relayed.single)
        return self._relayed(replace(port, vertex=self._vertex(relay)), stage)

    def _vertex(self, vertex: Vertex) -> int:
        """The number of the vertex, which is added unless an equal one exists."""
        key = fingerprint(vertex)
        if key not in self._known:
            self._known[key] = len(self._vertices)
            self._vertices.append(vertex)
        return self._known[key]


def _may_fail(operator: Any) -> bool:
    """Whether an operator without state may put a row in fault. Operators with state do not run where records are
    read."""
    match operator:
        case Filter(predicate=predicate):
            return not faultless(predicate)
        case Project(outputs=outputs):
            return not all(faultless(value) for _, value in outputs)
    return not operator.traces()


def _from_the_first(source: Source, known: Source | None) -> Source:
    """The source as two scans read it: each partition from the lesser of the two first offsets."""
    if known is None or known.start == source.start:
        return source
    places = source.start.keys() | known.start.keys()
    start = {partition: min(source.start.get(partition, 0), known.start.get(partition, 0)) for partition in places}
    return msgspec.structs.replace(source, start=start)
