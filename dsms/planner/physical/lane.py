"""A lane runs continuous queries as one dataflow over their sources, with its own positions and state.

Queries of a lane share equal parts: the reading of sources, operators and traces (their state). The frontier of each
vertex is the least frontier of the sources on which it depends, so no query waits for a source that only another query
reads. This module imports no optimizer and no lowering: processes that only run lanes do not need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from dsms.model.objects import Query, Source
from dsms.planner.physical.adjustable import Adjustable
from dsms.planner.physical.dataflow import Dataflow
from dsms.planner.physical.parts.links import LinkTarget, Shard
from operators.core.delta import origin
from operators.core.pickled_by_copy import PickledByCopy


@dataclass(frozen=True)
class Output:
    """The result of one query: the vertex of its stream output, and the keys and the schema of its visible columns.
    `member` is the query's number if the vertex outputs the results of a family, otherwise None."""

    id: str
    name: str
    vertex: int
    schema: pa.Schema
    keys: tuple[str, ...]
    append_only: bool
    sink: Query | None = None
    member: int | None = None
    #: For a part of a query that several fragments run: the link that it writes, or its shard of the result partitions.
    link: LinkTarget | None = None
    share: Shard | None = None
    #: Whether rows in fault become dead letters.
    reports: bool = True
    #: Whether its changes are published; False for the next plan of a query.
    publishes: bool = True
    #: For a report of the rows in fault below shared subplans: an id for each of these, under which it stores its
    #: progress, so that the progress stays with the subplan if that moves to another fragment.
    reports_on: tuple[str, ...] = ()

    @property
    def first_name(self) -> str:
        """The name that its query was created with, which is in dead letters: these depend on the logs alone, not on
        when the query was renamed."""
        return self.name if self.sink is None else self.sink.first_name

    @property
    def progress_ids(self) -> tuple[str, ...]:
        """The ids under which its progress is stored."""
        return self.reports_on or (self.id,)

    @property
    def progress_places(self) -> list[tuple[str, str, int]]:
        """The topic partitions of its progress records, each with an id. A report has no topic; the id is in its
        place."""
        if self.reports_on:
            return [(id, id, 0) for id in self.reports_on]
        return [(self.id, topic, partition) for topic, partition in self.places]

    @property
    def places(self) -> list[tuple[str, int]]:
        """The topic partitions that it writes."""
        if self.link is not None:
            return [(self.link.topic, partition) for partition in self.link.partitions]
        if self.sink is None:
            return []
        partitions = (part for part in range(self.sink.partitions) if self.share is None or self.share.holds(part))
        return [(self.sink.topic, partition) for partition in partitions]


@dataclass(frozen=True)
class EncodingGroup:
    """Results of one vertex whose records are encoded in the same way: of one query, or of members of a family."""

    vertex: int
    #: Their indices in the outputs of the lane.
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Lane(PickledByCopy):
    """Queries that run together as one dataflow. `sources` are the leaves of the dataflow, by number."""

    id: str
    sources: dict[int, Source]
    flow: Dataflow
    outputs: tuple[Output, ...]
    #: For outputs over links, by id: the sources whose records caused the elements, by number.
    origins: Mapping[str, Mapping[int, Source]] = field(default_factory=dict)

    @cached_property
    def reported(self) -> dict[str, frozenset[int]]:
        """For each output, by id, the vertices whose rows in fault it reports: those below it, except those below an
        earlier output of the same query.
        """
        reported: dict[str, frozenset[int]] = {}
        earlier: dict[str, frozenset[int]] = {}
        for output in self.outputs:
            below, known = self.flow.below[output.vertex], earlier.get(output.name, frozenset())
            reported[output.id] = below - known if output.reports else frozenset()
            earlier[output.name] = known | below
        return reported

    def leaf(self, source_id: str) -> int:
        """The number of a source."""
        return next(number for number, source in self.sources.items() if source.id == source_id)

    def columns_read(self, leaf: int) -> frozenset[str]:
        """The columns of a source that stage 0 reads."""
        return self.flow.columns_read[self.flow.leaf(leaf)]

    def leaves(self, output: Output) -> frozenset[int]:
        """The sources on which a result depends, by number."""
        return self.flow.vertices[output.vertex].leaves

    def ids_read(self, output: Output) -> frozenset[str]:
        """The ids of the sources on which a result depends."""
        return self._ids_by_vertex[output.vertex]

    @cached_property
    def _ids_by_vertex(self) -> dict[int, frozenset[str]]:
        vertices = {output.vertex: self.leaves(output) for output in self.outputs}
        return {vertex: frozenset(self.sources[leaf].id for leaf in leaves) for vertex, leaves in vertices.items()}

    def cause(self, output: Output, order: int) -> tuple[Source, int, int] | None:
        """The source, partition and offset of the record that caused an element of a result. The lane has read the
        record, or received the element through a link.

        An element that no record caused, such as the count over an empty relation, has order 0. For it the first source
        of the result is returned, or None if the result has no source.
        """
        number, partition, offset = origin(order)
        read = {at: source for at, source in self.sources.items() if at in self.leaves(output)}
        read |= self.origins.get(output.id, {})
        if number in read:
            return read[number], partition, offset
        return (read[min(read)], 0, 0) if read else None

    @cached_property
    def encoding_groups(self) -> tuple[EncodingGroup, ...]:
        """The published results, grouped by their encoding."""
        groups: dict[object, list[int]] = {}
        for number, output in enumerate(self.outputs):
            if not output.publishes:
                continue
            groups.setdefault(_encoding(number, output), []).append(number)
        return tuple(EncodingGroup(self.outputs[numbers[0]].vertex, tuple(numbers)) for numbers in groups.values())

    @cached_property
    def result_vertices(self) -> frozenset[int]:
        """The vertices of the results."""
        return frozenset(output.vertex for output in self.outputs)

    @cached_property
    def by_vertex(self) -> dict[int, tuple[Output, ...]]:
        """The results that depend on each vertex."""
        results: dict[int, tuple[Output, ...]] = {}
        for output in self.outputs:
            for vertex in self.flow.below[output.vertex]:
                results[vertex] = (*results.get(vertex, ()), output)
        return results

    @cached_property
    def queries_with_adjustable_operators(self) -> frozenset[str]:
        """The queries that have adjustable operators in the dataflow, including former versions of replaced queries."""
        operators = (vertex.operator for vertex in self.flow.vertices)
        return frozenset(operator.query for operator in operators if isinstance(operator, Adjustable))

    def adjusted_leaves(self, query: str) -> frozenset[int]:
        """The sources whose records the adjustable operators of a query read, by number."""
        below = (vertex for vertex in self.flow.vertices if isinstance(vertex.operator, Adjustable))
        return frozenset[int]().union(*(vertex.leaves for vertex in below if vertex.operator.query == query))

    @cached_property
    def sheddable(self) -> frozenset[str]:
        """The queries whose input may be shed."""
        published = ((output.id, output.sink) for output in self.outputs)
        return frozenset(query for query, sink in published if sink is not None and sink.sheddable)

    @cached_property
    def adjustable(self) -> frozenset[str]:
        """The queries with settings that are decided at run time."""
        published = ((output.id, output.sink) for output in self.outputs)
        return frozenset(query for query, sink in published if sink is not None and sink.adjustable)

    def published_by_leaf(self, leaf: int) -> tuple[Output, ...]:
        """The results that depend on a source and have a result topic."""
        return tuple(output for output in self.by_leaf[leaf] if output.sink is not None)

    @cached_property
    def by_leaf(self) -> dict[int, tuple[Output, ...]]:
        """The results that depend on each source."""
        return {leaf: tuple(output for output in self.outputs if leaf in self.leaves(output)) for leaf in self.sources}


def _encoding(number: int, output: Output) -> object:
    if output.member is None or output.sink is None:
        return number
    sink = output.sink
    return output.vertex, sink.format, sink.key_schema_id, sink.value_schema_id, sink.partitions
