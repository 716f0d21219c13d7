"""A dataflow: the operators of a lane in topological order, cut into stages by exchanges.

Stage 0 runs where records are read, without state. The stages after it run on the targets: every vertex has its state
on each of them, and an exchange brings the elements that belong together to one target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from dsms.model.fingerprint import fingerprint
from operators.constraints.forget import Forget
from operators.core.delta import Delta, polars_schema
from operators.core.operator import MEMBER, RIGHT_MEMBER, Narrow
from operators.core.snapshot import Snapshot
from operators.streams.switch import Switch


def marks_of(leaf: int) -> int:
    """The number of the leaf that gives how far the ordered columns of a source have come.

    >>> marks_of(0), marks_of(marks_of(3))
    (-1, 3)
    """
    return ~leaf


_WHOSE = frozenset({MEMBER, RIGHT_MEMBER})
Keys = tuple[str, ...]
#: By the hash of columns (none: all to target 0), by source partition, to the same target again, or to every target.
Routing = Keys | Literal["source", "stay", "all"]


@dataclass(frozen=True)
class Exchange:
    """What the vertex `producer` gives, routed before `stage`."""

    producer: int
    stage: int
    by: Routing


@dataclass(frozen=True)
class Feed:
    """An input of a vertex: the output of an earlier vertex of its stage, or what an exchange brought."""

    vertex: int
    exchange: int | None = None


@dataclass(frozen=True)
class Vertex(Snapshot):
    """An operator in its place. A leaf has none: its output are the elements of the source `leaf`.

    Its frontier is the least of those of `leaves`, the sources that it waits for: those below it, and for a buffer
    those of the operator above it. `single`: it runs on target 0 alone.
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
        inner = self.operator.operator if isinstance(self.operator, Forget) else self.operator
        return type(inner).__name__

    def empty(self) -> Delta:
        """No element of its output."""
        return self._empty

    @cached_property
    def _empty(self) -> Delta:
        return Delta.empty(polars_schema(self.schema))


@dataclass(frozen=True)
class Dataflow(Snapshot):
    """The vertices, inputs before consumers, and the exchanges between them."""

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
    def read(self) -> tuple[frozenset[str], ...]:
        """The columns of each vertex that those above it read. What is sent or published is read whole."""
        found = [frozenset[str]() for _ in self.vertices]
        within = {feed.vertex for one in self.vertices for feed in one.inputs}
        partly = within - {one.producer for one in self.exchanges}
        for at, vertex in reversed(list(enumerate(self.vertices))):
            if at not in partly:
                found[at] = frozenset(vertex.schema.names)
            for feed in vertex.inputs:
                below = frozenset(self.vertices[feed.vertex].schema.names)
                reads = vertex.operator.reads(found[at]) if isinstance(vertex.operator, Narrow) else below
                found[feed.vertex] |= reads & below
        return tuple(found)

    @cached_property
    def by_stage(self) -> dict[int, list[int]]:
        """The vertices of each stage."""
        found: dict[int, list[int]] = {}
        for at, vertex in enumerate(self.vertices):
            found.setdefault(vertex.stage, []).append(at)
        return found

    @cached_property
    def last_read(self) -> dict[int, frozenset[int]]:
        """The vertices that nobody reads any more after each vertex; what is sent is none."""
        last = {feed.vertex: at for at, one in enumerate(self.vertices) for feed in one.inputs if feed.exchange is None}
        found: dict[int, frozenset[int]] = {}
        for at in last.keys() - {one.producer for one in self.exchanges}:
            found[last[at]] = found.get(last[at], frozenset()) | {at}
        return found

    @cached_property
    def sent(self) -> dict[int, list[int]]:
        """The exchanges that each stage fills."""
        found: dict[int, list[int]] = {}
        for at, one in enumerate(self.exchanges):
            found.setdefault(self.vertices[one.producer].stage, []).append(at)
        return found

    @cached_property
    def below(self) -> tuple[frozenset[int], ...]:
        """The vertices that each vertex depends on, with itself."""
        found: list[frozenset[int]] = []
        for at, vertex in enumerate(self.vertices):
            found.append(frozenset({at}).union(*(found[feed.vertex] for feed in vertex.inputs)))
        return tuple(found)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A name of each vertex that says what it computes, the same in every dataflow that holds it: state goes by
        it."""
        found: list[str] = []
        for vertex in self.vertices:
            inputs = [(found[feed.vertex], self._by(feed)) for feed in vertex.inputs]
            if isinstance(vertex.operator, Switch):
                inputs = []  # what it computes from its instant on is the same with and without what was before
            what = vertex.operator, vertex.leaf, vertex.stage, vertex.leaves, vertex.single, inputs
            found.append(fingerprint(what))
        return tuple(found)

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """A name of each exchange, the same in every dataflow that holds it: what waits there goes by it."""
        return tuple(fingerprint((self.keys[one.producer], one.stage, one.by)) for one in self.exchanges)

    @cached_property
    def arriving(self) -> dict[int, list[int]]:
        """The exchanges that each stage receives."""
        found: dict[int, list[int]] = {}
        for at, one in enumerate(self.exchanges):
            found.setdefault(one.stage, []).append(at)
        return found

    @cached_property
    def members(self) -> dict[str, tuple[bool, ...]]:
        """For the vertices that stand for a whole family, by key: which of their traces hold a part for each member.
        Where only one input of two tells members apart, the trace of the other is that of any one member."""
        return {
            key: told
            for key, vertex in zip(self.keys, self.vertices, strict=True)
            if vertex.operator is not None and any(told := self._told(vertex))
        }

    def _told(self, vertex: Vertex) -> tuple[bool, ...]:
        own = vertex.operator.own if isinstance(vertex.operator, Forget) else None
        inputs = [not _WHOSE.isdisjoint(self.vertices[feed.vertex].schema.names) for feed in vertex.inputs[:own]]
        held = len(vertex.operator.traces())
        return tuple(inputs) if held == len(inputs) else (all(inputs) and bool(inputs),) * held

    def _by(self, feed: Feed) -> Routing | None:
        return None if feed.exchange is None else self.exchanges[feed.exchange].by
