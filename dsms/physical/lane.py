"""A lane: continuous queries as one dataflow over their sources, with its own positions and state.

Queries of one lane share what is equal in them: reading, operators and traces. Each vertex has a frontier of its own,
the least of the sources that it waits for, so no query waits for a source that only another one reads. What runs lanes
imports this, so the planner is no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from dsms.model.objects import Query, Source
from dsms.physical.dataflow import Dataflow
from operators.core.snapshot import Snapshot
from operators.streams.shed import Shed


@dataclass(frozen=True)
class Output:
    """The result of one query: the vertex of its stream output, with keys and schema of what is visible. `member` is
    set where the vertex gives the results of a whole family."""

    id: str
    name: str
    vertex: int
    schema: pa.Schema
    keys: tuple[str, ...]
    append_only: bool
    sink: Query | None = None
    member: int | None = None


@dataclass(frozen=True)
class Ending:
    """The results of one vertex whose records are encoded alike: of a query, or of the members of a family."""

    vertex: int
    #: Their places among the outputs of the lane.
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Lane(Snapshot):
    """How queries run together. `sources` are its leaves, by number."""

    id: str
    sources: dict[int, Source]
    flow: Dataflow
    outputs: tuple[Output, ...]

    def leaf(self, source_id: str) -> int:
        """The number of a source."""
        return next(number for number, source in self.sources.items() if source.id == source_id)

    def read(self, leaf: int) -> frozenset[str]:
        """The columns of a source that the source stage reads."""
        return self.flow.read[self.flow.leaf(leaf)]

    def leaves(self, output: Output) -> frozenset[int]:
        """The sources that a result waits for."""
        return self.flow.vertices[output.vertex].leaves

    @cached_property
    def endings(self) -> tuple[Ending, ...]:
        """The results as they are encoded."""
        found: dict[object, list[int]] = {}
        for number, output in enumerate(self.outputs):
            found.setdefault(_encoded_like(number, output), []).append(number)
        return tuple(Ending(self.outputs[numbers[0]].vertex, tuple(numbers)) for numbers in found.values())

    @cached_property
    def ends(self) -> frozenset[int]:
        """The vertices of the results."""
        return frozenset(output.vertex for output in self.outputs)

    @cached_property
    def by_vertex(self) -> dict[int, tuple[Output, ...]]:
        """The results that each vertex is below."""
        found: dict[int, tuple[Output, ...]] = {}
        for output in self.outputs:
            for vertex in self.flow.below[output.vertex]:
                found[vertex] = (*found.get(vertex, ()), output)
        return found

    @cached_property
    def shed(self) -> frozenset[str]:
        """The queries whose input may be shed, and what was shed of those in whose place others are."""
        return frozenset(one.operator.query for one in self.flow.vertices if isinstance(one.operator, Shed))

    @cached_property
    def sheddable(self) -> frozenset[str]:
        """The queries that allow that some of their input is left out."""
        return frozenset(one.id for one in self.outputs if one.sink is not None and one.sink.sheddable)

    def published_by_leaf(self, leaf: int) -> tuple[Output, ...]:
        """The results above a source that have a topic."""
        return tuple(output for output in self.by_leaf[leaf] if output.sink is not None)

    @cached_property
    def by_leaf(self) -> dict[int, tuple[Output, ...]]:
        """The results that each source is below."""
        return {leaf: tuple(one for one in self.outputs if leaf in self.leaves(one)) for leaf in self.sources}


def _encoded_like(number: int, output: Output) -> object:
    if output.member is None or output.sink is None:
        return number
    sink = output.sink
    return output.vertex, sink.format, sink.key_schema_id, sink.value_schema_id, sink.partitions
