"""Lowers nodes with one input, and the leaves."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical, properties
from dsms.model.schema import schema
from dsms.planner.physical.builder import Builder, Port
from dsms.planner.physical.column_bounds import bounds
from dsms.planner.physical.lower.dispatch import lower, lowering, stateful, stateless
from dsms.planner.physical.lower.first_rows import first_candidates
from dsms.planner.physical.lower.forgetting import forgetting, limited_keys
from dsms.planner.physical.lower.last_rows import reads_last_rows
from dsms.planner.physical.lower.panes import panes
from dsms.planner.physical.lower.promises import checked_records
from dsms.planner.physical.lower.session_groups import session_groups
from operators.expressions import Column
from operators.grouping.group_by import GroupBy
from operators.ranking.over import Over
from operators.ranking.over_stream import OverStream
from operators.ranking.top_k import TopK
from operators.relational.distinct import Distinct
from operators.relational.filter import Filter
from operators.relational.members import Members
from operators.relational.project import Project
from operators.relational.unnest import Unnest
from operators.relational.values import Values
from operators.sessions.session import Session
from operators.streams.bag_tagger import BagTagger
from operators.streams.restamp import Restamp
from operators.streams.sample import Sample
from operators.streams.shed import Shed
from operators.streams.since import Since
from operators.streams.stamp import Stamp
from operators.streams.tagger import Tagger
from operators.sync.sync_points import Periodic
from operators.sync.to_stream import Dstream, Istream, Rstream
from operators.windows.assign import Assign
from operators.windows.final import Final
from operators.windows.now_filter import NowFilter
from operators.windows.row_window import RowWindow
from operators.windows.time_window import TimeWindow


@lowering.register
def _(node: logical.StreamScan, builder: Builder) -> Port:
    leaf = checked_records(node, builder)
    if node.start is not None:
        leaf = stateless(Since(node.start), leaf, leaf.schema, builder)
    if not node.keys:
        return stateless(Stamp(node.numbered), leaf, schema(node), builder)
    routed, tagger = builder.route(leaf, node.keys), (BagTagger if node.bag else Tagger)(node.keys)
    operator, ports = forgetting(tagger, [routed], limited_keys(tagger, node.keys, bounds(node)), builder)
    return replace(builder.add(operator, ports, schema(node)), partitioned=routed.partitioned)


@lowering.register
def _(node: logical.Values, builder: Builder) -> Port:
    return builder.constant(Values(node.schema, node.rows), node.schema)


@lowering.register
def _(node: logical.Filter, builder: Builder) -> Port:
    return stateless(Filter(node.predicate), lower(node.input, builder), schema(node), builder)


@lowering.register
def _(node: logical.Members, builder: Builder) -> Port:
    operator = Members(node.family, node.predicate, node.parameters, node.known, node.roster)
    return stateless(operator, lower(node.input, builder), schema(node), builder)


@lowering.register
def _(node: logical.Project, builder: Builder) -> Port:
    return _add_project(node, lower(node.input, builder), builder)


def _add_project(node: logical.Project, below: Port, builder: Builder) -> Port:
    new_names: dict[str, str] = {}
    for name, output in node.outputs:
        if isinstance(output, Column):
            new_names.setdefault(output.name, name)
    projected = stateless(Project(node.outputs), below, schema(node), builder)
    return replace(projected, partitioned=below.renamed(new_names))


@lowering.register
def _(node: logical.Unnest, builder: Builder) -> Port:
    below, columns = lower(node.input, builder), schema(node)
    operator = Unnest(node.column, node.output, node.outer, columns.field(node.output).type)
    return stateless(operator, below, columns, builder)


@lowering.register
def _(node: logical.Assign, builder: Builder) -> Port:
    return _add_assign(node, lower(node.input, builder), builder)


def _add_assign(node: logical.Assign, below: Port, builder: Builder) -> Port:
    operator = Assign(node.kind, node.column, node.size, node.slide, node.offset)
    return stateless(operator, below, schema(node), builder)


@lowering.register
def _(node: logical.Apply, builder: Builder) -> Port:
    below, function, columns = lower(node.input, builder), node.function, schema(node)
    if function.partition is None:
        applied = stateless(function, below, columns, builder)
        return replace(applied, ends=applied.ends or function.ends_elements)
    return replace(stateful(function, below, function.partition, columns, builder), ends=function.ends_elements)


@lowering.register
def _(node: logical.Sample, builder: Builder) -> Port:
    operator = Sample(node.percent, node.keys, node.number)
    return stateless(operator, lower(node.input, builder), schema(node), builder)


@lowering.register
def _(node: logical.Shed, builder: Builder) -> Port:
    operator = Shed(node.query, node.keys, node.values, node.where, by=node.by, prefers=node.prefers)
    return stateless(operator, lower(node.input, builder), schema(node), builder)


@lowering.register
def _(node: logical.TimeWindow, builder: Builder) -> Port:
    below = lower(node.input, builder)
    if node.length is None and node.slide == 1:
        return below
    window = stateless(TimeWindow(node.length, node.slide), below, schema(node), builder)
    return replace(window, ends=node.length is not None, released=below.released and node.slide == 1)


@lowering.register
def _(node: logical.NowFilter, builder: Builder) -> Port:
    filtered = stateless(NowFilter(node.ranges), lower(node.input, builder), schema(node), builder)
    return replace(filtered, ends=True, released=False)


@lowering.register
def _(node: logical.Restamp, builder: Builder) -> Port:
    below, keys = lower(node.input, builder), properties.keys(node.input)
    if not keys:
        return stateless(Stamp(), below, schema(node), builder)
    return stateful(Restamp(keys), below, keys, schema(node), builder)


@lowering.register
def _(node: logical.Distinct, builder: Builder) -> Port:
    columns = schema(node)
    return stateful(Distinct(), lower(node.input, builder), tuple(columns.names), columns, builder, bounds(node.input))


@lowering.register
def _(node: logical.GroupBy, builder: Builder) -> Port:
    if (sessions := session_groups(node)) is not None and not builder.receives(sessions.session):
        partition = sessions.operator.session.partition
        groups = stateful(sessions.operator, lower(sessions.input, builder), partition, schema(node), builder)
        return replace(groups, partitioned=groups.renamed(sessions.names))
    operator = GroupBy(
        node.keys, node.aggregates, schema(node.input), node.bound, append_only=properties.append_only(node.input)
    )
    groups = stateful(operator, _input_of_groups(node, builder), node.keys, schema(node), builder, bounds(node.input))
    return replace(groups, partitioned=frozenset(keys for keys in groups.partitioned if set(keys) <= set(node.keys)))


def _input_of_groups(node: logical.GroupBy, builder: Builder) -> Port:
    """The port of the input, with rows merged by pane if that is possible."""
    if (split := panes(node)) is None:
        return lower(node.input, builder)
    project, assign, operator = split
    below = lower(assign.input, builder)
    merged = stateless(operator, below, below.schema, builder)
    return _add_project(project, _add_assign(assign, merged, builder), builder)


@lowering.register
def _(node: logical.TopK, builder: Builder) -> Port:
    ranking = (node.partition, node.order, node.limit, node.offset, node.method, node.rank)
    operator = TopK(*ranking, schema(node.input), append_only=properties.append_only(node.input))
    below = lower(node.input, builder)
    if (candidates := first_candidates(node)) is not None:
        below = stateless(candidates, below, below.schema, builder)
    return stateful(operator, below, node.partition, schema(node), builder, bounds(node.input))


@lowering.register
def _(node: logical.WindowFunctions, builder: Builder) -> Port:
    below, keys = lower(node.input, builder), node.calls[0].partition
    if reads_last_rows(node):
        return stateful(OverStream(node.calls), below, keys, schema(node), builder, bounds(node.input))
    return stateful(Over(node.calls), below, keys, schema(node), builder, bounds(node.input))


@lowering.register
def _(node: logical.RowWindow, builder: Builder) -> Port:
    operator = RowWindow(node.rows, node.partition, node.slide)
    return stateful(operator, lower(node.input, builder), node.partition, schema(node), builder)


@lowering.register
def _(node: logical.Session, builder: Builder) -> Port:
    operator = Session(node.column, node.gap, node.partition)
    return stateful(operator, lower(node.input, builder), node.partition, schema(node), builder)


@lowering.register
def _(node: logical.ToStream, builder: Builder) -> Port:
    below, columns = lower(node.input, builder), schema(node)
    if node.kind == "istream" and properties.append_only(node.input):
        return below
    operators = {"istream": Istream(), "dstream": Dstream(), "rstream": Rstream(node.points or Periodic(1))}
    keys = () if node.kind == "rstream" and _has_rows_at_start(node.input) else tuple(columns.names)
    return stateful(operators[node.kind], below, keys, columns, builder)


@lowering.register
def _(node: logical.Final, builder: Builder) -> Port:
    (ready,) = builder.release([lower(node.input, builder)], changes=True)
    final = builder.add(Final(node.bound, node.after), [ready], schema(node))
    return replace(final, partitioned=ready.partitioned)


def _has_rows_at_start(node: logical.Node) -> bool:
    """Whether the relation may have rows before any record, such as constants and groups without keys. Then all rows
    must be on one target, because Rstream emits them from the first change on, on the target of that change.
    """
    constant = (below for below in properties.walk(node) if isinstance(below, logical.Values | logical.GroupBy))
    return any(isinstance(below, logical.Values) or not below.keys for below in constant)
