"""Plans a fragment: selects the queries of a catalog that it runs, and compiles them into lanes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import pyarrow as pa

from dsms.model import logical, properties
from dsms.model.catalog import Catalog
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.objects import FirstOffsets, Former, PlanHints, Query, Source
from dsms.model.schema import visible
from dsms.model.subplans import SharedSubplan, subplans_below
from dsms.planner.optimizer.algebra.column_projections import order_columns
from dsms.planner.optimizer.families import Template, plan_of_members, template_of
from dsms.planner.optimizer.first_offsets import reading_from
from dsms.planner.optimizer.join_orders import reordered
from dsms.planner.optimizer.optimize import optimize
from dsms.planner.optimizer.view_matching import computed_from_views, merged
from dsms.planner.physical.builder import Builder, Port
from dsms.planner.physical.lane import Lane, Output
from dsms.planner.physical.parts.cut import DividedQuery, SegmentPart
from dsms.planner.physical.parts.links import ResultPartitions, Shard, result_partitions_of, sender_of
from dsms.planner.physical.parts.shared_links import LinkReport, parts_of_shard, with_shared_links
from dsms.planner.physical.parts.subplans import (
    ReportPart,
    SubplanLink,
    SubplanPart,
    links_of,
    lowered,
    report_id,
    sources_read,
)
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.former_versions import former_plan, plan_of_former
from operators.core.errors import UserError
from operators.core.operator import MEMBER
from operators.core.run import hashing
from operators.expressions import Literal
from operators.streams.relay import Relay
from operators.streams.stream_output import StreamOutput
from operators.streams.switch import Switch


@dataclass(frozen=True)
class PlannedQuery:
    """A query to run: its logical plan and, as `sink`, the catalog's query whose result topic it writes. `sink` is None
    for a plan without a result topic, such as that of a stream or table."""

    id: str
    name: str
    node: logical.Node
    sink: Query | None = None
    #: The plan of the query that this one replaced.
    former: logical.Node | None = None
    #: The optimised plans of the queries from which it is computed.
    views: tuple[logical.Node, ...] = ()
    #: If several fragments run the query, the part of it that this plan runs; None: the whole query.
    part: SegmentPart | LinkReport | SubplanPart | ReportPart | None = None
    #: Whether rows in fault become dead letters. Not for a source that is read only for the dead letters of queries in
    #: other fragments.
    reports: bool = True
    #: The hints from which the plan is derived.
    hints: PlanHints = PlanHints()
    #: Set for a next plan, which builds its state while the current plan of a query runs, and publishes nothing: the id
    #: of that query.
    next_of: str | None = None

    @property
    def sources(self) -> Iterable[Source]:
        """The sources and links that it reads."""
        if self.part is not None:
            return self.part.sources
        return sources_read(self.optimized, self.links) if self.links else properties.sources(self.node)

    @cached_property
    def links(self) -> tuple[SubplanLink, ...]:
        """The shared subplans in its plan that it reads through links."""
        if self.sink is None or self.part is not None:
            return ()
        return links_of(self.sink.links, self.optimized)

    @property
    def origins(self) -> Mapping[int, Source]:
        """The sources of the whole plan, by number: their records cause the elements of links. The shards of a query
        have the links of its exchanges besides."""
        if isinstance(self.part, SegmentPart | LinkReport):
            return self.part.origins
        return {source.number: source for source in properties.sources(self.optimized)}

    @property
    def result_partitions(self) -> dict[str, ResultPartitions]:
        """The topic partitions to which it publishes, by its id; for a report, the places of its progress records."""
        if isinstance(self.part, ReportPart | LinkReport):
            return {id: ResultPartitions(id, frozenset([0])) for id in self.part.progress_ids}
        if self.part is not None and (target := self.part.target) is not None:
            return {self.id: ResultPartitions(target.topic, frozenset(target.partitions))}
        if self.sink is None or self.next_of is not None:
            return {}
        if self.part is None:
            return result_partitions_of(self.sink)
        return {self.id: result_partitions_of(self.sink)[self.id]}

    @property
    def _movable(self) -> SubplanPart | ReportPart | Query | None:
        """What can move between fragments as a whole; None for a shard of a query or a plan without a result."""
        if isinstance(self.part, SubplanPart | ReportPart):
            return self.part
        return self.sink if self.part is None else None

    @property
    def moved(self) -> bool:
        """Whether the fragment that runs it did not run it from its beginning."""
        return self._movable is not None and self._movable.moved

    @property
    def former_fragment(self) -> str | None:
        """The fragment that it has left and that still has its state; None if there is none."""
        if self._movable is None or self.next_of is not None:
            return None
        return self._movable.former_fragment

    @property
    def number(self) -> int:
        """The number of the query: its id without the letter."""
        return int(self.id[1:])

    @cached_property
    def optimized(self) -> logical.Node:
        """The optimised plan, computed from the views if possible, with its joins in their chosen order."""
        return reordered(self.default_order_plan, self.hints.join_orders)

    @cached_property
    def default_order_plan(self) -> logical.Node:
        """The optimised plan with joins in the default order for its text."""
        return computed_from_views(optimize(self.node), self.views).node

    @cached_property
    def template(self) -> Template | None:
        """The template that this query shares with queries that differ only in constants. None if it has no template,
        is a part of a query, or has settings that are decided at run time.
        """
        if self.sink is None or self.sink.adjustable or self.part is not None:
            return None
        keys, append_only = properties.keys(self.node), properties.append_only(self.node)
        return template_of(self.optimized, visible(self.node), keys, append_only, self.sink.format)

    @property
    def shared(self) -> bool:
        """Whether it may run together with others."""
        return self.sink is None or self.sink.shared or self.part is not None

    @property
    def query(self) -> str:
        """Its own id; for a next plan, the id of the query that is changing to it."""
        return self.next_of or self.id

    @property
    def stopped(self) -> bool:
        """Whether it makes no progress, because it is paused or halted, or works only for such a query."""
        if self.part is not None:
            return self.part.stopped
        return self.sink is not None and self.sink.stopped

    @property
    def append_only(self) -> bool:
        """Whether no row of its result is ever retracted."""
        replaced = self.sink is not None and self.sink.since is not None and not self.sink.is_cql_stream
        return properties.append_only(self.node) and not replaced

    @property
    def member(self) -> Template | None:
        """The template if the query runs as a member of its family, otherwise None."""
        return self.template if self.sink is not None and self.sink.grouped else None


@dataclass(frozen=True)
class Reader:
    """A query of which a fragment runs parts, because it is divided or reads shared subplans of the fragment: its plan,
    and these parts."""

    plan: PlannedQuery
    parts: tuple[PlannedQuery, ...]


@dataclass(frozen=True)
class FragmentPlan:
    """The plan of one fragment: its version, the number of partitions of its exchanges, and its queries by id.
    `foreign` are the partitions of sources, by source id, whose dead letters another fragment writes.
    `suspended_sources` are the ids of the sources whose reading is suspended."""

    version: int
    partitions: int
    queries: dict[str, PlannedQuery] = field(default_factory=dict)
    foreign: frozenset[tuple[str, int]] = frozenset()
    suspended_sources: frozenset[str] = frozenset()
    #: The records skipped by SKIP RECORD, as offsets by source id and partition.
    skipped: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    #: The queries that could not be planned, by name, with the reason. (Another version of dsms accepted them.)
    unplanned: Mapping[str, str] = field(default_factory=dict)
    #: The sources, by id, of each query that needs this fragment and others. A silent source must not hold it back.
    sources_of_readers: frozenset[frozenset[str]] = frozenset()
    #: The queries that are divided, or read shared subplans of this fragment, by id.
    readers: Mapping[str, Reader] = field(default_factory=dict)
    #: The queries, by id, that have moved to other fragments, which have not taken over their state yet.
    left: frozenset[str] = frozenset()

    @property
    def result_partitions(self) -> dict[str, ResultPartitions]:
        """The topic partitions to which its queries publish, by id."""
        return {
            query: places for planned in self.queries.values() for query, places in planned.result_partitions.items()
        }

    @property
    def divided_result_partitions(self) -> dict[str, ResultPartitions]:
        """All result partitions of the queries that this fragment runs together with others, by query id."""
        sinks = [planned.sink for planned in self.queries.values() if isinstance(planned.part, SegmentPart)]
        return {sink.id: ResultPartitions(sink.topic, frozenset(range(sink.partitions))) for sink in sinks if sink}

    def takes_over(self, before: FragmentPlan) -> bool:
        """Whether this fragment takes over work that other fragments do under the plan `before`: queries, shards of
        queries, or the dead letters of source partitions.
        """
        read = {source.id for planned in self.queries.values() for source in planned.sources}
        if any(source in read for source, _ in before.foreign - self.foreign):
            return True
        known = {
            planned.sink.id: planned.sink.divided_at_version for planned in before.queries.values() if planned.sink
        }
        sinks = (planned.sink for planned in self.queries.values() if planned.sink is not None)
        return any(sink.divided_at_version > known.get(sink.id, 0) for sink in sinks)

    @cached_property
    def read_throughout(self) -> Mapping[str, frozenset[str]] | None:
        """The plans that have read each source from the beginning here, by the id of the source; None if no query has
        moved here, so that all have."""
        if not any(planned.moved for planned in self.queries.values()):
            return None
        readers: dict[str, set[str]] = defaultdict(set)
        for planned in self.queries.values():
            for source in () if planned.moved else planned.sources:
                readers[source.id].add(planned.id)
        return {source: frozenset(ids) for source, ids in readers.items()}

    @property
    def links(self) -> dict[str, int]:
        """The topics of the links that its parts read and write, with their numbers of partitions."""
        parts = (planned.part for planned in self.queries.values() if planned.part is not None)
        read = (link.subplan.topic for planned in self.queries.values() for link in planned.links)
        return {topic: count for part in parts for topic, count in part.topics.items()} | dict.fromkeys(read, 1)


def plan_fragment(
    catalog: Catalog, partitions: int, before: FragmentPlan | None = None, fragment: str | None = None
) -> FragmentPlan:
    """The plan that a fragment runs under a catalog. If `fragment` is None, one fragment runs all queries.

    It is a pure function, so every process that knows the catalog knows the plan. Queries that are in `before` are not
    planned again, unless they changed, or their sources were renamed or got more partitions. A query that cannot be
    planned is left out, and the reason is recorded in `unplanned`.
    """
    known, unplanned = before.queries if before else {}, dict[str, str]()
    known_readers, readers = before.readers if before else {}, dict[str, Reader]()
    queries: list[PlannedQuery] = []
    for query in catalog.running():
        try:
            if fragment in _fragments(query, fragment):
                queries += plans_of(query, catalog, known)
            elif fragment is not None and fragment in query.shares:
                readers[query.id] = _shard(query, fragment, catalog, known_readers.get(query.id))
            if subplans := _computed_here(query, fragment):
                readers[query.id] = _reader(query, subplans, catalog, known_readers.get(query.id))
        except UserError as error:
            unplanned[query.name] = str(error)
    queries += _once(part for reader in readers.values() for part in reader.parts)
    unread = [] if fragment is None else _read_elsewhere(catalog, fragment, queries)
    sources = catalog.source_versions()
    foreign = frozenset(
        (source.id, partition)
        for source in sources
        for partition in range(source.partitions)
        if fragment not in (None, source.home_of(partition))
    )
    suspended = frozenset(
        source.id for source in sources if source.adding_partitions_since is not None or source.skipping is not None
    )
    skipped = {(source.id, part): offsets for source in sources for part, offsets in source.skipped.items()}
    by_id = {query.id: query for query in [*queries, *unread]}
    groups = frozenset(_sources_of_readers(catalog, fragment))
    left = frozenset() if fragment is None else frozenset(_left(catalog, fragment))
    return FragmentPlan(
        catalog.version, partitions, by_id, foreign, suspended, skipped, unplanned, groups, readers, left
    )


def _left(catalog: Catalog, fragment: str) -> Iterator[str]:
    """The ids of the queries, shared subplans and reports that have moved from a fragment, until their new fragments
    have taken them over."""
    for query in catalog.running():
        if query.former_fragment == fragment:
            yield query.id
        moved = [each for each in subplans_below(query.links) if each.former_fragment == fragment]
        yield from (sender_of(each.id) for each in moved)
        yield from (report_id(query.id, each) for each in moved)


def _computed_here(query: Query, fragment: str | None) -> list[SharedSubplan]:
    """The shared subplans that a fragment computes for a query, directly or indirectly."""
    return [each for each in subplans_below(query.links) if fragment in (None, each.fragment)]


def _reader(query: Query, subplans: Iterable[SharedSubplan], catalog: Catalog, before: Reader | None) -> Reader:
    """The parts that a fragment runs for a query that reads its shared subplans: the subplans themselves, and the
    report of the rows in fault below them. `before` is the earlier result, which is reused if it is still valid."""
    plan = planned(query, catalog, before.plan if before is not None else None)
    if before is not None and before.plan is plan:
        return before
    links = links_of(subplans, plan.optimized)
    computed = tuple(
        SubplanPart(link.subplan, link.node, links_of(link.subplan.links, link.node), query.stopped) for link in links
    )
    reports = [ReportPart(query.id, query.first_name, computed, query.stopped)] if computed else []
    parts: list[SubplanPart | ReportPart] = [*computed, *reports]
    return Reader(plan, tuple(PlannedQuery(part.id, query.name, plan.node, part=part) for part in parts))


def _once(parts: Iterable[PlannedQuery]) -> Iterable[PlannedQuery]:
    """The parts, each once. What several queries read makes progress as long as one of them does."""
    chosen: dict[str, PlannedQuery] = {}
    for part in parts:
        if part.id not in chosen or chosen[part.id].stopped:
            chosen[part.id] = part
    return chosen.values()


def _sources_of_readers(catalog: Catalog, fragment: str | None) -> Iterator[frozenset[str]]:
    """The sources of each query that needs this fragment, and a link or another fragment: to run it, a shared subplan
    that it reads, or a query that fills a table that it reads."""
    streams = {source.id for source in catalog.source_versions()}
    filling: dict[str | None, Query] = {query.fills: query for query in catalog.running() if query.fills is not None}
    for query in catalog.running():
        needed = tuple(_with_fillers(query, filling))
        fragments = frozenset[str]().union(*(each.needed_fragments for each in needed))
        through_links = any(each.links for each in needed)
        if (len(fragments) > 1 or through_links) and fragment in fragments:
            yield frozenset(source for each in needed for source in each.reads if source in streams)


def _with_fillers(query: Query, filling: Mapping[str | None, Query]) -> Iterable[Query]:
    """A query, and the queries that fill the tables that it reads, directly or indirectly."""
    found, waiting = dict[str, Query](), [query]
    while waiting:
        each = waiting.pop()
        found[each.id] = each
        fillers = (filling[table] for table in each.reads if table in filling)
        waiting += (filler for filler in fillers if filler.id not in found)
    return found.values()


def _fragments(query: Query, fragment: str | None) -> tuple[str | None, ...]:
    """The fragments that run a query as a whole; None stands for the fragment that runs all queries. If several
    fragments divide the query, only None is left.
    """
    return (None,) if query.shares else (None, query.fragment)


def _shard(query: Query, fragment: str, catalog: Catalog, before: Reader | None) -> Reader:
    """The parts of a divided query that a fragment runs. `before` is the earlier result, which is reused if it is still
    valid."""
    plan = planned(query, catalog, before.plan if before is not None else None)
    if before is not None and before.plan is plan:
        return before
    share = Shard(query.shares.index(fragment), len(query.shares))
    parts = parts_of_shard(with_shared_links(divided(plan, catalog.cluster)), share)
    return Reader(plan, tuple(_part(part, plan) for part in parts))


def _part(part: SegmentPart | LinkReport, plan: PlannedQuery) -> PlannedQuery:
    """A part of a divided query. One that other queries may share publishes no result of this query."""
    own = isinstance(part, SegmentPart) and part.shared is None
    return PlannedQuery(part.id, plan.name, plan.node, plan.sink if own else None, part=part)


def divided(query: PlannedQuery, cluster: str) -> DividedQuery:
    """Compiles a query for several fragments. Raises UserError if it cannot be divided."""
    assert query.sink is not None
    lane = compile_lane(query.id, [query], divisible=True)
    output = lane.outputs[0]
    if not (output.keys or output.append_only):
        raise UserError(
            "its result has no key and is not append-only: FRAGMENTS needs a key or an append-only result",
            hint="select a key, such as the columns of GROUP BY, or omit FRAGMENTS",
        )
    return DividedQuery(query.sink, lane, cluster, hashing())


def _read_elsewhere(catalog: Catalog, fragment: str, here: Iterable[PlannedQuery]) -> Iterator[PlannedQuery]:
    """Plans that read source partitions only for their dead letters: this fragment writes these, but the queries that
    read the partitions run in other fragments, or have moved here, so that others have read the first records.
    """
    throughout = (query for query in here if not query.moved)
    read = {
        (source.id, partition)
        for query in throughout
        for source in query.sources
        for partition in source.partitions_read
    }
    anywhere = {source for query in catalog.running() for source in query.reads}
    for source in catalog.source_versions():
        own = tuple(part for part in range(source.partitions) if source.home_of(part) == fragment)
        if source.id in anywhere and not all((source.id, part) in read for part in own):
            only = None if len(own) == source.partitions else own
            scanned = msgspec.structs.replace(source, only=only)
            whole = logical.StreamScan(scanned, source.name, (), created_as=source.as_registered.name)
            scan = reading_from(whole, _first_read(source.id, catalog))
            nothing = logical.Filter(scan, Literal(False, pa.bool_()))
            yield PlannedQuery(source.id, source.name, nothing, reports=False)


def _first_read(source: str, catalog: Catalog) -> FirstOffsets:
    """The least offset of each partition of a source that any query reads; {} if a query reads the whole source."""
    read = [query.first_offsets.get(source) for query in catalog.running() if source in query.reads]
    if not all(read):
        return {}
    least: dict[int, int] = {}
    for offsets in filter(None, read):
        least |= {part: min(offset, least.get(part, offset)) for part, offset in offsets.items()}
    return {source: least}


def plans_of(query: Query, catalog: Catalog, known: Mapping[str, PlannedQuery]) -> Iterator[PlannedQuery]:
    """The plan of a view or query, and its next plan if it is changing to one. `known` are earlier plans by id, which
    are reused if they are still valid."""
    current = planned(query, catalog, known.get(query.id))
    yield current
    if query.next_hints is not None:
        after = next_plan(current, query.next_hints)
        before = known.get(after.id)
        same = before is not None and before.sink is current.sink and before.node is current.node
        yield before if before is not None and same else after


def next_plan(current: PlannedQuery, hints: PlanHints) -> PlannedQuery:
    """The plan of a query with other hints, under an id of its own (see `Query.next_plan_id`)."""
    id, name = f"{current.id}+{hints.text}", f"{current.name} (next plan)"
    views = tuple(_view(current.node, former) for former in hints.over)
    return replace(current, id=id, name=name, views=views, hints=hints, next_of=current.id, reports=False)


def planned(query: Query, catalog: Catalog, known: PlannedQuery | None = None) -> PlannedQuery:
    """A view or query of a catalog with its plan; `known` is its earlier plan, which is reused if still valid."""
    if known is not None and not _same_sources(known.node, catalog):
        known = None
    if known is not None and known.sink == query:
        return known
    node = known.node if known is not None else plan_of(query.name, catalog)
    views = tuple(_view(node, former) for former in query.over)
    return PlannedQuery(query.id, query.name, node, query, former_plan(query), views, hints=query.hints)


def _same_sources(node: logical.Node, catalog: Catalog) -> bool:
    """Whether the sources and tables in a plan have the partitions and names that they have in the catalog."""
    current = _sources_now(catalog)
    known = {source.id: (source.name, source.partitions) for source in properties.sources(node)}
    return all(current.get(id, as_planned) == as_planned for id, as_planned in known.items())


@memoized_by_identity(4)
def _sources_now(catalog: Catalog) -> Mapping[str, tuple[str, int]]:
    """The name of each source and table and its number of partitions, by id."""
    return {source.id: (source.name, source.partitions) for source in catalog.logs()}


@memoized_by_identity(256)
def _optimized_view(former: Former) -> logical.Node:
    node = plan_of_former(former)
    return computed_from_views(optimize(node), tuple(_view(node, below) for below in former.over)).node


@memoized_by_identity(256)
def _view(node: logical.Node, former: Former) -> logical.Node:
    """The optimised plan from which a plan is computed: that of the former, or its operator merged with the plan's."""
    view = _optimized_view(former)
    return (merged(node, view, plan_of_former(former)) or view) if former.merged else view


def compile_lane(lane_id: str, queries: Iterable[PlannedQuery], *, divisible: bool = False) -> Lane:
    """Compiles queries into one dataflow, with a stream output for each. Equal parts of their plans become one part of
    the dataflow, as do all members of a family. If `divisible`, the dataflow can be cut into parts for several
    fragments.
    """
    builder, families = Builder(divisible=divisible), dict[str, list[tuple[PlannedQuery, Template]]]()
    order, outputs, origins = list[str](), dict[str, Output](), dict[str, Mapping[int, Source]]()
    for query in queries:
        order.append(query.id)
        if query.part is not None:
            outputs[query.id] = query.part.output(builder)
            origins[query.id] = query.origins
        elif (member := query.member) is None:
            origins[query.id] = query.origins if query.links else {}
            outputs[query.id] = _add_output(query, query.optimized, builder)
        else:
            families.setdefault(member.family, []).append((query, member))
    for members in families.values():
        outputs |= _add_family(members, builder)
    listed = tuple(outputs[query] for query in order)
    return Lane(lane_id, builder.sources, builder.dataflow(), listed, origins)


def _add_family(members: list[tuple[PlannedQuery, Template]], builder: Builder) -> dict[str, Output]:
    ordered = sorted(members, key=lambda member: member[0].number)
    node = plan_of_members((query.number, template) for query, template in ordered)
    output = _add_output(ordered[0][0], node, builder, MEMBER)
    return {
        query.id: replace(output, id=query.id, name=query.name, sink=query.sink, member=query.number)
        for query, _ in ordered
    }


def add_result(query: PlannedQuery, builder: Builder) -> Port:
    """Adds the vertices that compute a query's result, without the stream output."""
    return _result(query, query.optimized, builder)


def _add_output(query: PlannedQuery, node: logical.Node, builder: Builder, *member_columns: str) -> Output:
    keys, append_only = properties.keys(query.node), query.append_only
    output_keys = (*keys, *member_columns) if keys else ()
    result = _result(query, node, builder)
    below = _gathered(result, output_keys, append_only, builder)
    port = builder.add(StreamOutput(output_keys, append_only), [below], result.schema)
    columns = visible(query.node)
    current = query.next_of is None
    return Output(
        query.id,
        query.name,
        port.vertex,
        columns,
        keys,
        append_only,
        query.sink if current else None,
        reports=query.reports,
        publishes=current,
    )


def _result(query: PlannedQuery, node: logical.Node, builder: Builder) -> Port:
    """The port of a query's result. If the query replaced another one, its result before the instant of the change is
    that of the former query.
    """
    if query.sink is None or query.sink.since is None:
        return lowered(node, query.links, builder)
    nodes = [node] if query.former is None else [node, optimize(query.former)]
    columns = visible(query.node)
    ports = [lowered(order_columns(plan, columns.names), (), builder) for plan in nodes]
    return builder.add(Switch(query.id, query.sink.since, query.sink.is_cql_stream), ports, columns)


def _gathered(below: Port, keys: tuple[str, ...], append_only: bool, builder: Builder) -> Port:
    """The port, exchanged such that all changes of a key, or of equal rows, are on one target, which consolidates them.
    If several fragments run the query, changes are always exchanged, and the fragment that publishes their result
    partition consolidates them.
    """
    if builder.divisible:
        return _exchanged(below, keys or tuple(below.schema.names), append_only and not keys, builder)
    if keys:
        return builder.route(below, keys)
    return below if append_only else builder.route(below, tuple(below.schema.names))


def _exchanged(below: Port, keys: tuple[str, ...], in_place: bool, builder: Builder) -> Port:
    """The port after an exchange that only the stream output reads. If `in_place`, records in stage 0 need no exchange,
    because the fragment that reads them also writes their result partition.
    """
    if in_place and builder.stage(below) == 0:
        return below
    relayed = builder.add(Relay(), [below], below.schema)
    return replace(relayed, via=keys, partitioned=frozenset({keys}), released=below.released, ends=below.ends)
