"""A dataflow holds the operators of a lane in topological order; exchanges divide them into stages.

Stage 0 runs where records are read, and has no state. The later stages run on the targets, which are parallel tasks:
each target has a part of the state of every vertex, and an exchange routes elements that belong together to the same
target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from dsms.model.fingerprint import fingerprint
from operators.constraints.forget import Forget
from operators.core.delta import Delta, polars_schema
from operators.core.operator import MEMBER, RIGHT_MEMBER, Prunable
from operators.core.pickled_by_copy import PickledByCopy
from operators.streams.switch import Switch


def marks_of(leaf: int) -> int:
    """The leaf number of the marks of a source, which are lower bounds of the values to come in its ordered columns.
    `leaf` is the number of the source, which is also the leaf number of its elements. The function is its own inverse.

    >>> marks_of(0), marks_of(marks_of(3))
    (-1, 3)
    """
    return ~leaf


_MEMBER_COLUMNS = frozenset({MEMBER, RIGHT_MEMBER})
Keys = tuple[str, ...]
#: How elements are routed: by the hash of columns (without columns, all to target 0), by source partition ("source"),
#: to the target on which they are ("stay"), or to every target ("all").
Routing = Keys | Literal["source", "stay", "all"]


def without_forget(operator: Any) -> Any:
    """An operator without the wrapper that limits its state."""
    return operator.operator if isinstance(operator, Forget) else operator


@dataclass(frozen=True)
class Exchange:
    """The output of the vertex `producer`, routed by `by` to the targets of `stage`."""

    producer: int
    stage: int
    by: Routing


@dataclass(frozen=True)
class Feed:
    """An input of a vertex: the output of an earlier vertex, through an exchange if that one is in an earlier stage."""

    vertex: int
    exchange: int | None = None


@dataclass(frozen=True)
class Vertex(PickledByCopy):
    """An operator in its position in a dataflow. A leaf has no operator: its output is the elements of the source
    `leaf`.

    Its frontier is the least frontier of `leaves`. These are the sources on which it depends; for a buffer, those on
    which the operator that reads the buffer depends. If `single`, it runs only on target 0.
    """

    operator: Any
    inputs: tuple[Feed, ...]
    stage: int
    schema: pa.Schema
    leaves: frozenset[int]
    leaf: int | None = None
    single: bool = False

    @property
    def kind(self) -> str:
        """The name of the operator."""
        return type(without_forget(self.operator)).__name__

    def empty(self) -> Delta:
        """An output without elements."""
        return self._empty

    @cached_property
    def _empty(self) -> Delta:
        return Delta.empty(polars_schema(self.schema))


@dataclass(frozen=True)
class Dataflow(PickledByCopy):
    """The vertices, in topological order, and the exchanges between them."""

    vertices: tuple[Vertex, ...]
    exchanges: tuple[Exchange, ...]

    @cached_property
    def stages(self) -> int:
        """The number of the last stage."""
        return max((vertex.stage for vertex in self.vertices), default=0)

    def leaf(self, number: int) -> int:
        """The vertex of a source, by the source's number."""
        return next(at for at, vertex in enumerate(self.vertices) if vertex.leaf == number)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each vertex, those whose first input is its output."""
        firsts = [vertex.inputs[0].vertex if vertex.inputs else None for vertex in self.vertices]
        return tuple(tuple(at for at, first in enumerate(firsts) if first == vertex) for vertex in range(len(firsts)))

    @cached_property
    def columns_read(self) -> tuple[frozenset[str], ...]:
        """The columns of each vertex that its consumers read. If the output of a vertex is exchanged or published, all
        columns are read."""
        read = [frozenset[str]() for _ in self.vertices]
        consumed = {feed.vertex for vertex in self.vertices for feed in vertex.inputs}
        only_in_stage = consumed - {exchange.producer for exchange in self.exchanges}
        for at, vertex in reversed(list(enumerate(self.vertices))):
            if at not in only_in_stage:
                read[at] = frozenset(vertex.schema.names)
            for feed in vertex.inputs:
                available = frozenset(self.vertices[feed.vertex].schema.names)
                reads = vertex.operator.reads(read[at]) if isinstance(vertex.operator, Prunable) else available
                read[feed.vertex] |= reads & available
        return tuple(read)

    @cached_property
    def by_stage(self) -> dict[int, list[int]]:
        """The vertices of each stage."""
        stages: dict[int, list[int]] = {}
        for at, vertex in enumerate(self.vertices):
            stages.setdefault(vertex.stage, []).append(at)
        return stages

    @cached_property
    def last_read(self) -> dict[int, frozenset[int]]:
        """For each vertex, the vertices of whose output it is the last reader. Vertices whose output is exchanged are
        left out, because it is needed until the end of the stage.
        """
        feeds = ((at, feed) for at, vertex in enumerate(self.vertices) for feed in vertex.inputs)
        last_reader = {feed.vertex: at for at, feed in feeds if feed.exchange is None}
        read: dict[int, frozenset[int]] = {}
        for vertex in last_reader.keys() - {exchange.producer for exchange in self.exchanges}:
            reader = last_reader[vertex]
            read[reader] = read.get(reader, frozenset()) | {vertex}
        return read

    @cached_property
    def exchanges_from(self) -> dict[int, list[int]]:
        """The exchanges into which each stage sends."""
        exchanges: dict[int, list[int]] = {}
        for at, exchange in enumerate(self.exchanges):
            exchanges.setdefault(self.vertices[exchange.producer].stage, []).append(at)
        return exchanges

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """For each vertex, the vertices on which it depends, including itself."""
        below: list[frozenset[int]] = []
        for at, vertex in enumerate(self.vertices):
            below.append(frozenset({at}).union(*(below[feed.vertex] for feed in vertex.inputs)))
        return tuple(below)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A name for each vertex, by its computation. It is the same in every dataflow that contains the vertex, and
        the state of the vertex is stored under it.
        """
        names: list[str] = []
        for vertex in self.vertices:
            inputs = [(names[feed.vertex], self._routing(feed)) for feed in vertex.inputs]
            if isinstance(vertex.operator, Switch):
                inputs = []  # from its instant on, the result does not depend on the former query
            computation = vertex.operator, vertex.leaf, vertex.stage, vertex.leaves, vertex.single, inputs
            names.append(fingerprint(computation))
        return tuple(names)

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """A name for each exchange. It is the same in every dataflow that contains the exchange, and elements that wait
        in the exchange are stored under it."""
        identities = ((self.keys[exchange.producer], exchange.stage, exchange.by) for exchange in self.exchanges)
        return tuple(map(fingerprint, identities))

    @cached_property
    def exchanges_into(self) -> dict[int, list[int]]:
        """The exchanges from which each stage receives."""
        exchanges: dict[int, list[int]] = {}
        for at, exchange in enumerate(self.exchanges):
            exchanges.setdefault(exchange.stage, []).append(at)
        return exchanges

    @cached_property
    def members(self) -> dict[str, tuple[bool, ...]]:
        """For the vertices that run a family of queries, by key: which of their traces have a part for each member. If
        only one of two inputs has members, all members share the trace of the other.
        """
        return {
            key: by_member
            for key, vertex in zip(self.keys, self.vertices, strict=True)
            if vertex.operator is not None and any(by_member := self._traces_by_member(vertex))
        }

    def _traces_by_member(self, vertex: Vertex) -> tuple[bool, ...]:
        """For each trace of a vertex, whether it has a part for each member. If a vertex has one trace for each input,
        a trace does if its input has members; otherwise all traces do if all inputs have members.
        """
        own = vertex.operator.own if isinstance(vertex.operator, Forget) else None
        columns = [self.vertices[feed.vertex].schema.names for feed in vertex.inputs[:own]]
        inputs = [not _MEMBER_COLUMNS.isdisjoint(names) for names in columns]
        traces = len(vertex.operator.traces())
        return tuple(inputs) if traces == len(inputs) else (all(inputs) and bool(inputs),) * traces

    def _routing(self, feed: Feed) -> Routing | None:
        return None if feed.exchange is None else self.exchanges[feed.exchange].by
