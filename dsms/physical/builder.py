"""Building a dataflow: which operator stands where, and what must be exchanged before it.

A port is the output of a vertex with what is known of it. Rows are `partitioned` by columns when equal values of these
are on one target; it is `released` when it holds no element at or above the frontier; it has `ends` when an element may
end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dsms.model.fingerprint import fingerprint
from dsms.model.objects import Source
from dsms.physical.dataflow import Dataflow, Exchange, Feed, Keys, Routing, Vertex, marks_of
from operators.streams.relay import Relay
from operators.streams.reorder import Reorder
from operators.streams.retract_ends import RetractEnds

Partitioning = frozenset[Keys]
UNKNOWN: Partitioning = frozenset()
SINGLE: Partitioning = frozenset({()})


@dataclass(frozen=True)
class Port:
    """The output of a vertex. `via` is the exchange that is still to be made on the way to its consumer."""

    vertex: int
    schema: pa.Schema
    partitioned: Partitioning = UNKNOWN
    released: bool = True
    ends: bool = False
    via: Routing | None = None

    def renamed(self, names: Mapping[str, str]) -> Partitioning:
        """The partitioning after columns were renamed; what lost a column is lost."""
        kept = [keys for keys in self.partitioned if all(key in names for key in keys)]
        return frozenset(tuple(names[key] for key in keys) for keys in kept)


class Builder:
    """Collects vertices; equal vertices over equal inputs are one."""

    def __init__(self) -> None:
        #: The sources that are read, by number.
        self.sources: dict[int, Source] = {}
        #: The records of sources, by number, that keep what is promised of a clustered column.
        self.clustered: dict[tuple[int, str], Port] = {}
        #: The sources of the plan that is being lowered.
        self.scope: frozenset[int] = frozenset()
        self._vertices: list[Vertex] = []
        self._exchanges: dict[Exchange, int] = {}
        self._known: dict[str, int] = {}
        #: The port of each logical node that was lowered, by the node's fingerprint.
        self.lowered: dict[str, Port] = {}

    def dataflow(self) -> Dataflow:
        """What was built."""
        return Dataflow(tuple(self._vertices), tuple(self._exchanges))

    def leaf(self, source: Source) -> Port:
        """The records of a source."""
        self.sources[source.number] = source
        leaves = frozenset({source.number})
        vertex = self._vertex(Vertex(None, (), 0, source.schema, leaves, leaf=source.number))
        return Port(vertex, source.schema, released=False)

    def marks(self, source: Source) -> Port:
        """How far the ordered columns of a source have come."""
        columns = pa.schema([pa.field(one.column, pa.int64()) for one in source.ordered])
        number = source.number
        vertex = self._vertex(Vertex(None, (), 0, columns, frozenset({number}), leaf=marks_of(number)))
        return Port(vertex, columns, released=False)

    def constant(self, operator: Any, columns: pa.Schema) -> Port:
        """A relation without inputs, on target 0."""
        return Port(self._vertex(Vertex(operator, (), 1, columns, self.scope, single=True)), columns, SINGLE)

    def route(self, port: Port, keys: Keys) -> Port:
        """The port with rows that are equal in `keys` on one target."""
        if any(set(known) <= set(keys) for known in port.partitioned):
            return port
        return replace(port, via=keys, partitioned=frozenset({keys}))

    def release(
        self, ports: Sequence[Port], *, changes: bool = False, leaves: frozenset[int] | None = None
    ) -> list[Port]:  # fmt: skip
        """The inputs of one operator with elements held back until its frontier passes them: the least of theirs, or
        that of `leaves`. As changes, ends become retractions."""
        waiting = self.leaves(ports) if leaves is None else leaves
        return [self._released(port, waiting, changes=changes) for port in ports]

    def leaves(self, ports: Sequence[Port]) -> frozenset[int]:
        """The sources below some ports."""
        return frozenset().union(*(self._vertices[port.vertex].leaves for port in ports))

    def add(self, operator: Any, ports: Sequence[Port], columns: pa.Schema, *, single: bool = False) -> Port:
        """A vertex for an operator. One with state runs on the targets."""
        return self._placed(operator, ports, columns, self.leaves(ports), single=single)

    def _placed(
        self, operator: Any, ports: Sequence[Port], columns: pa.Schema, leaves: frozenset[int], *, single: bool = False
    ) -> Port:  # fmt: skip
        stage = max(self._stage(port) for port in ports)
        if stage == 0 and (single or operator.traces()):
            stage = 1
        feeds = tuple(self._feed(port, stage) for port in ports)
        return Port(self._vertex(Vertex(operator, feeds, stage, columns, leaves, single=single)), columns)

    def _released(self, port: Port, leaves: frozenset[int], *, changes: bool) -> Port:
        if changes and port.ends:
            return replace(self._placed(RetractEnds(), [port], port.schema, leaves), partitioned=port.partitioned)
        if port.released and self.leaves([port]) == leaves:
            return port
        held = self._placed(Reorder(), [port], port.schema, leaves)
        return replace(held, partitioned=port.partitioned, ends=port.ends)

    def _stage(self, port: Port) -> int:
        return self._vertices[port.vertex].stage + (port.via is not None)

    def _feed(self, port: Port, stage: int) -> Feed:
        made = self._vertices[port.vertex].stage
        if port.via is None and made == stage:
            return Feed(port.vertex)
        by: Routing = port.via if port.via is not None else "stay" if made else "source"
        exchange = Exchange(self._relayed(port.vertex, stage) if made else port.vertex, stage, by)
        return Feed(exchange.producer, self._exchanges.setdefault(exchange, len(self._exchanges)))

    def _relayed(self, vertex: int, stage: int) -> int:
        """The vertex, or what stands for it in the stage before: a stage may let wait what comes to it, and what went
        past would be ahead of the frontier of what is behind it."""
        below = self._vertices[vertex]
        if below.stage + 1 == stage:
            return vertex
        feed = self._feed(Port(vertex, below.schema), below.stage + 1)
        relay = Vertex(Relay(), (feed,), below.stage + 1, below.schema, below.leaves, single=below.single)
        return self._relayed(self._vertex(relay), stage)

    def _vertex(self, vertex: Vertex) -> int:
        key = fingerprint(vertex)
        if key not in self._known:
            self._known[key] = len(self._vertices)
            self._vertices.append(vertex)
        return self._known[key]
