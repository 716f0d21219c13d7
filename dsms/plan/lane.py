"""A lane: continuous queries as one dataflow over their sources, with its own positions and state.

Queries of one lane share what is equal in them: reading, operators and traces. Each vertex has a frontier of its own,
the least of the sources that it waits for, so no query waits for a source that only another one reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from dsms.catalog.catalog import Catalog
from dsms.catalog.objects import Query, Source
from dsms.plan import logical, properties
from dsms.plan.builder import Builder, Port
from dsms.plan.dataflow import Dataflow
from dsms.plan.lower import lower
from dsms.plan.optimize import optimize
from dsms.plan.schema import schema, visible
from dsms.sql.bind import plan_of
from operators.stream_output import StreamOutput


@dataclass(frozen=True)
class Planned:
    """A query that is to run: its logical plan, and where results go (None for a stream or table, which has no topic
    of results)."""

    id: str
    name: str
    node: logical.Node
    sink: Query | None = None


@dataclass(frozen=True)
class Output:
    """The result of one query: the vertex of its stream output, with keys and schema of what is visible."""

    id: str
    name: str
    vertex: int
    schema: pa.Schema
    keys: tuple[str, ...]
    append_only: bool
    sink: Query | None = None


@dataclass(frozen=True)
class Lane:
    """How queries run together. `sources` are its leaves, by number."""

    id: str
    sources: dict[int, Source]
    flow: Dataflow
    outputs: tuple[Output, ...]

    def leaf(self, source_id: str) -> int:
        """The number of a source."""
        return next(number for number, source in self.sources.items() if source.id == source_id)

    def leaves(self, output: Output) -> frozenset[int]:
        """The sources that a result waits for."""
        return self.flow.vertices[output.vertex].leaves

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
    def by_leaf(self) -> dict[int, tuple[Output, ...]]:
        """The results that each source is below."""
        return {leaf: tuple(one for one in self.outputs if leaf in self.leaves(one)) for leaf in self.sources}


@dataclass(frozen=True)
class FragmentPlan:
    """What one fragment runs: a version of the plan, the partitions of its exchanges, and its queries by id."""

    version: int
    partitions: int
    queries: dict[str, Planned] = field(default_factory=dict)


def plan_fragment(catalog: Catalog, partitions: int) -> FragmentPlan:
    """The plan of a catalog: a pure function, so every process that knows the catalog knows the plan."""
    queries = [Planned(found.id, found.name, plan_of(found.name, catalog), found) for found in catalog.running()]
    return FragmentPlan(catalog.version, partitions, {query.id: query for query in queries})


def compile_lane(lane_id: str, queries: Iterable[Planned]) -> Lane:
    """The dataflow of logical plans, with a stream output at the end of each. Equal parts of it are there once."""
    builder = Builder()
    outputs = tuple(_output(query, builder) for query in queries)
    return Lane(lane_id, builder.sources, builder.dataflow(), outputs)


def _output(query: Planned, builder: Builder) -> Output:
    node = optimize(query.node)
    keys, append_only = properties.keys(query.node), properties.append_only(query.node)
    builder.scope = frozenset(source.number for source in properties.sources(node))
    below = _gathered(lower(node, builder), keys, append_only, builder)
    port = builder.add(StreamOutput(keys, append_only), [below], schema(query.node))
    return Output(query.id, query.name, port.vertex, visible(query.node), keys, append_only, query.sink)


def _gathered(below: Port, keys: tuple[str, ...], append_only: bool, builder: Builder) -> Port:
    """Changes of one key, or of equal rows, on one target: they are netted there."""
    if keys:
        return builder.route(below, keys)
    return below if append_only else builder.route(below, tuple(below.schema.names))
