"""What a fragment runs: the queries of a catalog, and how they are compiled into lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.objects import FirstOffsets, Former, Query
from dsms.model.schema import visible
from dsms.optimizer.algebra.column_projections import order_columns
from dsms.optimizer.families import Template, plan_of_members, template_of
from dsms.optimizer.first_offsets import reading_from
from dsms.optimizer.optimize import optimize
from dsms.optimizer.view_matching import answered_over
from dsms.physical.builder import Builder, Port
from dsms.physical.lane import Lane, Output
from dsms.physical.lower import lower
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.earlier_queries import former_plan, plan_as_it_was
from operators.core.operator import MEMBER
from operators.expressions import Literal
from operators.streams.stream_output import StreamOutput
from operators.streams.switch import Switch


@dataclass(frozen=True)
class Planned:
    """A query that is to run: its logical plan, and the query that its results go to (None for a stream or table, which
    has no topic of results)."""

    id: str
    name: str
    node: logical.Node
    sink: Query | None = None
    #: The plan of the query that this one replaced.
    former: logical.Node | None = None
    #: The optimised plans of the queries that it is answered over.
    views: tuple[logical.Node, ...] = ()

    @property
    def number(self) -> int:
        """The number of the query: its id without the letter."""
        return int(self.id[1:])

    @cached_property
    def optimized(self) -> logical.Node:
        """The optimised plan, over the views where these contain it."""
        return answered_over(optimize(self.node), self.views).node

    @cached_property
    def template(self) -> Template | None:
        """The template that this query shares with those that differ from it in constants alone; None if its plan has
        none."""
        if self.sink is None or self.sink.sheddable:
            return None
        keys, append_only = properties.keys(self.node), properties.append_only(self.node)
        return template_of(self.optimized, visible(self.node), keys, append_only, self.sink.format)

    @property
    def shared(self) -> bool:
        """Whether it may run together with others."""
        return self.sink is None or self.sink.shared

    @property
    def still(self) -> bool:
        """Whether it stays where it is."""
        return self.sink is not None and self.sink.still

    @property
    def append_only(self) -> bool:
        """Whether no row of its result is ever retracted."""
        replaced = self.sink is not None and self.sink.since is not None and not self.sink.streams
        return properties.append_only(self.node) and not replaced

    @property
    def member(self) -> Template | None:
        """The template if the query runs as a member of its family, else None."""
        return self.template if self.sink is not None and self.sink.grouped else None


@dataclass(frozen=True)
class FragmentPlan:
    """What one fragment runs: a version of the plan, the number of partitions of its exchanges, and its queries by id.
    `foreign` are the ids of the sources whose dead letters another fragment writes, `held` of those of which nothing is
    read for now."""

    version: int
    partitions: int
    queries: dict[str, Planned] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()

    @property
    def result_topics(self) -> dict[str, str]:
        """The result topics of its queries, by id."""
        return {query: planned.sink.topic for query, planned in self.queries.items() if planned.sink is not None}


def plan_fragment(
    catalog: Catalog, partitions: int, before: FragmentPlan | None = None, fragment: str | None = None
) -> FragmentPlan:
    """The plan of a catalog: a pure function, so every process that knows the catalog knows the plan. Queries that
    `before` has are not planned again: a query's plan changes only where partitions join its sources. A fragment runs
    the queries that are assigned to it; None runs all."""
    known = before.queries if before else {}
    running = [query for query in catalog.running() if fragment in (None, query.fragment)]
    queries = [planned(query, catalog, known.get(query.id)) for query in running]
    unread = [] if fragment is None else _read_elsewhere(catalog, fragment)
    foreign = frozenset(source.id for source in catalog.sources() if fragment not in (None, source.home))
    held = frozenset(source.id for source in catalog.sources() if source.held is not None)
    return FragmentPlan(catalog.version, partitions, {query.id: query for query in [*queries, *unread]}, foreign, held)


def _read_elsewhere(catalog: Catalog, fragment: str) -> Iterator[Planned]:
    """The sources at home in a fragment that only other fragments read: it reads them for their dead letters alone."""
    here = {source for query in catalog.running() if query.fragment == fragment for source in query.reads}
    anywhere = {source for query in catalog.running() for source in query.reads}
    for source in catalog.sources():
        if source.home == fragment and source.id in anywhere - here:
            scan = reading_from(logical.StreamScan(source, source.name, ()), _first_read(source.id, catalog))
            nothing = logical.Filter(scan, Literal(False, pa.bool_()))
            yield Planned(source.id, source.name, nothing)


def _first_read(source: str, catalog: Catalog) -> FirstOffsets:
    """The first offsets of a source that any query reads; {} if one reads all of it."""
    read = [query.first_offsets.get(source) for query in catalog.running() if source in query.reads]
    if not all(read):
        return {}
    least: dict[int, int] = {}
    for offsets in filter(None, read):
        least |= {part: min(offset, least.get(part, offset)) for part, offset in offsets.items()}
    return {source: least}


def planned(query: Query, catalog: Catalog, known: Planned | None = None) -> Planned:
    """A view or query of a catalog with its plan; `known` is how it was planned before."""
    if known is not None and not _same_partitions(known.node, catalog):
        known = None
    if known is not None and known.sink == query:
        return known
    node = known.node if known is not None else plan_of(query.name, catalog)
    views = tuple(map(_optimized_view, query.over))
    return Planned(query.id, query.name, node, query, former_plan(query), views)


def _same_partitions(node: logical.Node, catalog: Catalog) -> bool:
    present = {source.id: source.partitions for source in catalog.sources()}
    return all(present.get(source.id, source.partitions) == source.partitions for source in properties.sources(node))


@memoized_by_identity(256)
def _optimized_view(former: Former) -> logical.Node:
    return answered_over(optimize(plan_as_it_was(former)), tuple(map(_optimized_view, former.over))).node


def compile_lane(lane_id: str, queries: Iterable[Planned]) -> Lane:
    """The dataflow of logical plans, with a stream output at the end of each. Equal parts of the plans become one part
    of the dataflow, and so do all members of a family."""
    builder, families = Builder(), dict[str, list[tuple[Planned, Template]]]()
    order, outputs = list[str](), dict[str, Output]()
    for query in queries:
        order.append(query.id)
        if (member := query.member) is None:
            outputs[query.id] = _add_output(query, query.optimized, builder)
        else:
            families.setdefault(member.family, []).append((query, member))
    for members in families.values():
        outputs |= _add_family(members, builder)
    return Lane(lane_id, builder.sources, builder.dataflow(), tuple(outputs[query] for query in order))


def _add_family(members: list[tuple[Planned, Template]], builder: Builder) -> dict[str, Output]:
    ordered = sorted(members, key=lambda member: member[0].number)
    node = plan_of_members((query.number, template) for query, template in ordered)
    output = _add_output(ordered[0][0], node, builder, MEMBER)
    return {
        query.id: replace(output, id=query.id, name=query.name, sink=query.sink, member=query.number)
        for query, _ in ordered
    }


def _add_output(query: Planned, node: logical.Node, builder: Builder, *member_columns: str) -> Output:
    keys, append_only = properties.keys(query.node), query.append_only
    output_keys = (*keys, *member_columns) if keys else ()
    result = _result(query, node, builder)
    below = _gathered(result, output_keys, append_only, builder)
    port = builder.add(StreamOutput(output_keys, append_only), [below], result.schema)
    return Output(query.id, query.name, port.vertex, visible(query.node), keys, append_only, query.sink)


def _result(query: Planned, node: logical.Node, builder: Builder) -> Port:
    """The result of a query; if it replaced another, first that query's result and then its own."""
    if query.sink is None or query.sink.since is None:
        return _lowered(node, builder)
    nodes = [node] if query.former is None else [node, optimize(query.former)]
    columns = visible(query.node)
    ports = [_lowered(order_columns(plan, columns.names), builder) for plan in nodes]
    return builder.add(Switch(query.id, query.sink.since, query.sink.streams), ports, columns)


def _lowered(node: logical.Node, builder: Builder) -> Port:
    builder.scope = frozenset(source.number for source in properties.sources(node))
    return lower(node, builder)


def _gathered(below: Port, keys: tuple[str, ...], append_only: bool, builder: Builder) -> Port:
    """The port with all changes of one key, or of equal rows, on one target, where they are netted."""
    if keys:
        return builder.route(below, keys)
    return below if append_only else builder.route(below, tuple(below.schema.names))
