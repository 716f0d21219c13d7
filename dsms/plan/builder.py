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

from dsms.catalog.objects import Source
from dsms.plan.dataflow import Dataflow, Exchange, Feed, Keys, Routing, Vertex
from operators.expire import Expire
from operators.reorder import Reorder

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
        self.sources: list[Source] = []
        self._vertices: list[Vertex] = []
        self._exchanges: dict[Exchange, int] = {}
        self._known: dict[str, int] = {}
        #: The port of each logical node that was lowered, by its text.
        self.lowered: dict[str, Port] = {}

    def dataflow(self) -> Dataflow:
        """What was built."""
        return Dataflow(tuple(self._vertices), tuple(self._exchanges))

    def leaf(self, source: Source) -> Port:
        """The records of a source."""
        ids = [one.id for one in self.sources]
        if source.id not in ids:
            self.sources.append(source)
            ids.append(source.id)
        leaf = ids.index(source.id)
        vertex = self._vertex(Vertex(None, (), 0, source.schema, leaf=leaf))
        return Port(vertex, source.schema, released=False)

    def constant(self, operator: Any, columns: pa.Schema) -> Port:
        """A relation without inputs, on target 0."""
        return Port(self._vertex(Vertex(operator, (), 1, columns, single=True)), columns, SINGLE)

    def route(self, port: Port, keys: Keys) -> Port:
        """The port with rows that are equal in `keys` on one target."""
        if any(set(known) <= set(keys) for known in port.partitioned):
            return port
        return replace(port, via=keys, partitioned=frozenset({keys}))

    def release(self, port: Port, *, changes: bool = False) -> Port:
        """The port with elements held back until the frontier passes them; as changes, ends become retractions."""
        if changes and port.ends:
            return replace(self.add(Expire(), [port], port.schema), partitioned=port.partitioned)
        if port.released:
            return port
        return replace(self.add(Reorder(), [port], port.schema), partitioned=port.partitioned, ends=port.ends)

    def add(self, operator: Any, ports: Sequence[Port], columns: pa.Schema, *, single: bool = False) -> Port:
        """A vertex for an operator. One with state runs on the targets."""
        stage = max(self._stage(port) for port in ports)
        if stage == 0 and (single or operator.traces()):
            stage = 1
        feeds = tuple(self._feed(port, stage) for port in ports)
        vertex = self._vertex(Vertex(operator, feeds, stage, columns, single=single))
        return Port(vertex, columns)

    def _stage(self, port: Port) -> int:
        return self._vertices[port.vertex].stage + (port.via is not None)

    def _feed(self, port: Port, stage: int) -> Feed:
        made = self._vertices[port.vertex].stage
        if port.via is None and made == stage:
            return Feed(port.vertex)
        by: Routing = port.via if port.via is not None else "stay" if made else "source"
        exchange = Exchange(port.vertex, stage, by)
        return Feed(port.vertex, self._exchanges.setdefault(exchange, len(self._exchanges)))

    def _vertex(self, vertex: Vertex) -> int:
        key = repr(vertex)
        if key not in self._known:
            self._known[key] = len(self._vertices)
            self._vertices.append(vertex)
        return self._known[key]
