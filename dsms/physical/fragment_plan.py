"""What a fragment runs: the queries of a catalog, and how they are compiled into lanes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.by_identity import by_identity
from dsms.model.catalog import Catalog
from dsms.model.objects import Former, Query
from dsms.model.schema import visible
from dsms.optimizer.algebra.column_projections import order_columns
from dsms.optimizer.families import Template, template, united
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
    """A query that is to run: its logical plan, and where results go (None for a stream or table, which has no topic
    of results)."""

    id: str
    name: str
    node: logical.Node
    sink: Query | None = None
    #: What the query was before another took its place.
    former: logical.Node | None = None
    #: The rewritten plans of the queries that it is answered over.
    views: tuple[logical.Node, ...] = ()

    @property
    def number(self) -> int:
        """The number of the query: its id without the letter."""
        return int(self.id[1:])

    @cached_property
    def optimized(self) -> logical.Node:
        """The rewritten plan."""
        return answered_over(optimize(self.node), self.views).node

    @cached_property
    def template(self) -> Template | None:
        """What queries have in common that differ in their constants alone; None where this one has no such plan."""
        if self.sink is None or self.sink.sheddable:
            return None
        keys, append_only = properties.keys(self.node), properties.append_only(self.node)
        return template(self.optimized, visible(self.node), keys, append_only, self.sink.format)

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
        """Whether nothing is ever taken back of its result."""
        replaced = self.sink is not None and self.sink.since is not None and not self.sink.streams
        return properties.append_only(self.node) and not replaced

    @property
    def member(self) -> Template | None:
        """The template, where the query runs as a member of its family."""
        return self.template if self.sink is not None and self.sink.grouped else None


@dataclass(frozen=True)
class FragmentPlan:
    """What one fragment runs: a version of the plan, the partitions of its exchanges, and its queries by id. `foreign`
    are the sources whose dead letters another fragment writes."""

    version: int
    partitions: int
    queries: dict[str, Planned] = field(default_factory=dict)
    foreign: frozenset[str] = frozenset()


def plan_fragment(
    catalog: Catalog, partitions: int, before: FragmentPlan | None = None, fragment: str | None = None
) -> FragmentPlan:
    """The plan of a catalog: a pure function, so every process that knows the catalog knows the plan. What `before` has
    of it is not planned again: a query's plan never changes. `fragment` runs the queries that were given to it, None
    all."""
    known = before.queries if before else {}
    mine = [found for found in catalog.running() if fragment in (None, found.fragment)]
    queries = [planned(found, catalog, known.get(found.id)) for found in mine]
    kept = [] if fragment is None else _kept(catalog, fragment)
    foreign = frozenset(one.id for one in catalog.sources() if fragment not in (None, one.home))
    return FragmentPlan(catalog.version, partitions, {query.id: query for query in [*queries, *kept]}, foreign)


def _kept(catalog: Catalog, fragment: str) -> Iterator[Planned]:
    """The sources that others read and nobody here: their dead letters are written here, so they are read for nothing
    else."""
    here = {source for found in catalog.running() if found.fragment == fragment for source in found.reads}
    read = {source for found in catalog.running() for source in found.reads}
    for source in catalog.sources():
        if source.home == fragment and source.id in read - here:
            nothing = logical.Filter(logical.StreamScan(source, source.name, ()), Literal(False, pa.bool_()))
            yield Planned(source.id, source.name, nothing)


def planned(found: Query, catalog: Catalog, known: Planned | None = None) -> Planned:
    """A view or query of a catalog with its plan; `known` is what it was before."""
    if known is not None and known.sink == found:
        return known
    node = known.node if known is not None else plan_of(found.name, catalog)
    views = tuple(map(_rewritten, found.over))
    return Planned(found.id, found.name, node, found, former_plan(found), views)


@by_identity(256)
def _rewritten(former: Former) -> logical.Node:
    return answered_over(optimize(plan_as_it_was(former)), tuple(map(_rewritten, former.over))).node


def compile_lane(lane_id: str, queries: Iterable[Planned]) -> Lane:
    """The dataflow of logical plans, with a stream output at the end of each. Equal parts of it are there once, and one
    part is all members of a family."""
    builder, families = Builder(), dict[str, list[tuple[Planned, Template]]]()
    order, outputs = list[str](), dict[str, Output]()
    for query in queries:
        order.append(query.id)
        if (member := query.member) is None:
            outputs[query.id] = _output(query, query.optimized, builder)
        else:
            families.setdefault(member.family, []).append((query, member))
    for members in families.values():
        outputs |= _family(members, builder)
    return Lane(lane_id, builder.sources, builder.dataflow(), tuple(outputs[query] for query in order))


def _family(members: list[tuple[Planned, Template]], builder: Builder) -> dict[str, Output]:
    ordered = sorted(members, key=lambda member: member[0].number)
    node = united((query.number, found) for query, found in ordered)
    one = _output(ordered[0][0], node, builder, MEMBER)
    return {
        query.id: replace(one, id=query.id, name=query.name, sink=query.sink, member=query.number)
        for query, _ in ordered
    }


def _output(query: Planned, node: logical.Node, builder: Builder, *whose: str) -> Output:
    keys, append_only = properties.keys(query.node), query.append_only
    told_apart = (*keys, *whose) if keys else ()
    result = _result(query, node, builder)
    below = _gathered(result, told_apart, append_only, builder)
    port = builder.add(StreamOutput(told_apart, append_only), [below], result.schema)
    return Output(query.id, query.name, port.vertex, visible(query.node), keys, append_only, query.sink)


def _result(query: Planned, node: logical.Node, builder: Builder) -> Port:
    """The result of a query; of one that took the place of another, both, each in its time."""
    if query.sink is None or query.sink.since is None:
        return _lowered(node, builder)
    nodes = [node] if query.former is None else [node, optimize(query.former)]
    shown = visible(query.node)
    ports = [_lowered(order_columns(one, shown.names), builder) for one in nodes]
    return builder.add(Switch(query.id, query.sink.since, query.sink.streams), ports, shown)


def _lowered(node: logical.Node, builder: Builder) -> Port:
    builder.scope = frozenset(source.number for source in properties.sources(node))
    return lower(node, builder)


def _gathered(below: Port, keys: tuple[str, ...], append_only: bool, builder: Builder) -> Port:
    """Changes of one key, or of equal rows, on one target: they are netted there."""
    if keys:
        return builder.route(below, keys)
    return below if append_only else builder.route(below, tuple(below.schema.names))
