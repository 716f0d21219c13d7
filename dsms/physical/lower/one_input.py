"""Nodes with one input, and the leaves."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical, properties
from dsms.model.schema import schema
from dsms.physical.builder import Builder, Port
from dsms.physical.column_bounds import bounds
from dsms.physical.lower.dispatch import lower, lowering, stateful, stateless
from dsms.physical.lower.first_rows import foremost
from dsms.physical.lower.forgetting import by_key, forgetting
from dsms.physical.lower.panes import panes
from dsms.physical.lower.promises import kept
from dsms.physical.lower.session_groups import session_groups
from operators.expressions import Column
from operators.grouping.group_by import GroupBy
from operators.ranking.over import Over
from operators.ranking.top_k import TopK
from operators.relational.distinct import Distinct
from operators.relational.filter import Filter
from operators.relational.members import Members
from operators.relational.project import Project
from operators.relational.unnest import Unnest
from operators.relational.values import Values
from operators.sessions.session import Session
from operators.streams.restamp import Restamp
from operators.streams.sample import Sample
from operators.streams.shed import Shed
from operators.streams.since import Since
from operators.streams.stamp import Stamp
from operators.streams.tagger import Tagger
from operators.sync.sync_points import Periodic
from operators.sync.to_stream import Dstream, Istream, Rstream
from operators.windows.assign import Assign
from operators.windows.now_filter import NowFilter
from operators.windows.row_window import RowWindow
from operators.windows.time_window import TimeWindow


@lowering.register
def _(node: logical.StreamScan, builder: Builder) -> Port:
    leaf = kept(node, builder)
    if node.start is not None:
        leaf = stateless(Since(node.start), leaf, leaf.schema, builder)
    if not node.keys:
        return stateless(Stamp(), leaf, schema(node), builder)
    routed, tagger = builder.route(leaf, node.keys), Tagger(node.keys)
    operator, ports = forgetting(tagger, [routed], by_key(tagger, node.keys, bounds(node)), builder)
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
    return _projected(node, lower(node.input, builder), builder)


def _projected(node: logical.Project, below: Port, builder: Builder) -> Port:
    names: dict[str, str] = {}
    for name, output in node.outputs:
        if isinstance(output, Column):
            names.setdefault(output.name, name)
    found = stateless(Project(node.outputs), below, schema(node), builder)
    return replace(found, partitioned=below.renamed(names))


@lowering.register
def _(node: logical.Unnest, builder: Builder) -> Port:
    below, columns = lower(node.input, builder), schema(node)
    operator = Unnest(node.column, node.output, node.outer, columns.field(node.output).type)
    return stateless(operator, below, columns, builder)


@lowering.register
def _(node: logical.Assign, builder: Builder) -> Port:
    return _assigned(node, lower(node.input, builder), builder)


def _assigned(node: logical.Assign, below: Port, builder: Builder) -> Port:
    operator = Assign(node.kind, node.column, node.size, node.slide, node.offset)
    return stateless(operator, below, schema(node), builder)


@lowering.register
def _(node: logical.Sample, builder: Builder) -> Port:
    operator = Sample(node.percent, node.keys, node.number)
    return stateless(operator, lower(node.input, builder), schema(node), builder)


@lowering.register
def _(node: logical.Shed, builder: Builder) -> Port:
    return stateless(
        Shed(node.query, node.keys, node.values, node.where), lower(node.input, builder), schema(node), builder
    )


@lowering.register
def _(node: logical.TimeWindow, builder: Builder) -> Port:
    below = lower(node.input, builder)
    if node.length is None and node.slide == 1:
        return below
    found = stateless(TimeWindow(node.length, node.slide), below, schema(node), builder)
    return replace(found, ends=node.length is not None, released=below.released and node.slide == 1)


@lowering.register
def _(node: logical.NowFilter, builder: Builder) -> Port:
    found = stateless(NowFilter(node.ranges), lower(node.input, builder), schema(node), builder)
    return replace(found, ends=True, released=False)


@lowering.register
def _(node: logical.Restamp, builder: Builder) -> Port:
    below, known = lower(node.input, builder), properties.keys(node.input)
    if not known:
        return stateless(Stamp(), below, schema(node), builder)
    return stateful(Restamp(known), below, known, schema(node), builder)


@lowering.register
def _(node: logical.Distinct, builder: Builder) -> Port:
    columns = schema(node)
    return stateful(Distinct(), lower(node.input, builder), tuple(columns.names), columns, builder, bounds(node.input))


@lowering.register
def _(node: logical.GroupBy, builder: Builder) -> Port:
    if (sessions := session_groups(node)) is not None:
        partition = sessions.operator.session.partition
        found = stateful(sessions.operator, lower(sessions.input, builder), partition, schema(node), builder)
        return replace(found, partitioned=found.renamed(sessions.names))
    operator = GroupBy(
        node.keys, node.aggregates, schema(node.input), node.bound, append_only=properties.append_only(node.input)
    )  # fmt: skip
    found = stateful(operator, _grouped(node, builder), node.keys, schema(node), builder, bounds(node.input))
    return replace(found, partitioned=frozenset(one for one in found.partitioned if set(one) <= set(node.keys)))


def _grouped(node: logical.GroupBy, builder: Builder) -> Port:
    if (found := panes(node)) is None:
        return lower(node.input, builder)
    project, assign, operator = found
    below = lower(assign.input, builder)
    return _projected(project, _assigned(assign, stateless(operator, below, below.schema, builder), builder), builder)


@lowering.register
def _(node: logical.TopK, builder: Builder) -> Port:
    operator = TopK(
        node.partition, node.order, node.limit, node.offset, node.method, node.rank, schema(node.input),
        append_only=properties.append_only(node.input),
    )  # fmt: skip
    below = lower(node.input, builder)
    if (leading := foremost(node)) is not None:
        below = stateless(leading, below, below.schema, builder)
    return stateful(operator, below, node.partition, schema(node), builder, bounds(node.input))


@lowering.register
def _(node: logical.WindowFunctions, builder: Builder) -> Port:
    operator, keys = Over(node.calls), node.calls[0].partition
    return stateful(operator, lower(node.input, builder), keys, schema(node), builder, bounds(node.input))


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
    keys = () if node.kind == "rstream" and _from_the_beginning(node.input) else tuple(columns.names)
    return stateful(operators[node.kind], below, keys, columns, builder)


def _from_the_beginning(node: logical.Node) -> bool:
    """Whether there may be rows before any record: Rstream gives them from the first change on, wherever that is."""
    found = (one for one in properties.walk(node) if isinstance(one, logical.Values | logical.GroupBy))
    return any(isinstance(one, logical.Values) or not one.keys for one in found)
