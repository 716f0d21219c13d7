"""Logical nodes as operators: one function a node."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce, singledispatch

import pyarrow as pa

from dsms.plan import logical, properties
from dsms.plan.builder import Builder, Partitioning, Port
from dsms.plan.schema import schema
from operators.assign import Assign
from operators.distinct import Distinct
from operators.expressions import Column, Expression, Literal
from operators.filter import Filter
from operators.group_by import GroupBy
from operators.join import Join
from operators.negate import Negate
from operators.now_filter import NowFilter
from operators.over import Over
from operators.project import Project
from operators.restamp import Restamp
from operators.row_window import RowWindow
from operators.session import Session
from operators.set_operation import SetOperation
from operators.stamp import Stamp
from operators.sync import EventSync, PeriodicSync
from operators.sync_points import Periodic
from operators.tagger import Tagger
from operators.time_window import TimeWindow
from operators.to_stream import Dstream, Istream, Rstream
from operators.top_k import TopK
from operators.union import Union
from operators.unnest import Unnest
from operators.values import Values

_ANY = "__partner"


def lower(node: logical.Node, builder: Builder) -> Port:
    """The port of a node; equal nodes have one."""
    text = repr(node)
    if text not in builder.lowered:
        builder.lowered[text] = _lower(node, builder)
    return builder.lowered[text]


@singledispatch
def _lower(node: logical.Node, builder: Builder) -> Port:
    raise TypeError(node)


@_lower.register
def _(node: logical.Tag, builder: Builder) -> Port:
    leaf = builder.leaf(node.source)
    if not node.keys:
        return replace(builder.add(Stamp(), [leaf], schema(node)), released=False)
    routed = builder.route(leaf, node.keys)
    return replace(builder.add(Tagger(node.keys), [routed], schema(node)), partitioned=routed.partitioned)


@_lower.register
def _(node: logical.Values, builder: Builder) -> Port:
    return builder.constant(Values(node.schema, node.rows), node.schema)


def _stateless(operator: object, below: Port, columns: pa.Schema, builder: Builder) -> Port:
    """A vertex beside its input: what is known of the input holds for it."""
    found = builder.add(operator, [below], columns)
    return replace(found, partitioned=below.partitioned, released=below.released, ends=below.ends)


@_lower.register
def _(node: logical.Filter, builder: Builder) -> Port:
    return _stateless(Filter(node.predicate), lower(node.input, builder), schema(node), builder)


@_lower.register
def _(node: logical.Project, builder: Builder) -> Port:
    below = lower(node.input, builder)
    names: dict[str, str] = {}
    for name, output in node.outputs:
        if isinstance(output, Column):
            names.setdefault(output.name, name)
    found = _stateless(Project(node.outputs), below, schema(node), builder)
    return replace(found, partitioned=below.renamed(names))


@_lower.register
def _(node: logical.Unnest, builder: Builder) -> Port:
    below, columns = lower(node.input, builder), schema(node)
    operator = Unnest(node.column, node.output, node.outer, columns.field(node.output).type)
    return _stateless(operator, below, columns, builder)


@_lower.register
def _(node: logical.Assign, builder: Builder) -> Port:
    operator = Assign(node.kind, node.column, node.size, node.slide, node.offset)
    return _stateless(operator, lower(node.input, builder), schema(node), builder)


@_lower.register
def _(node: logical.TimeWindow, builder: Builder) -> Port:
    below = lower(node.input, builder)
    if node.length is None and node.slide == 1:
        return below
    found = _stateless(TimeWindow(node.length, node.slide), below, schema(node), builder)
    return replace(found, ends=node.length is not None, released=below.released and node.slide == 1)


@_lower.register
def _(node: logical.NowFilter, builder: Builder) -> Port:
    found = _stateless(NowFilter(node.ranges), lower(node.input, builder), schema(node), builder)
    return replace(found, ends=True, released=False)


@_lower.register
def _(node: logical.Sync, builder: Builder) -> Port:
    below = lower(node.input, builder)
    if isinstance(node.points, Periodic):
        found = _stateless(PeriodicSync(node.points), below, schema(node), builder)
        return replace(found, released=False)
    points = builder.release(replace(lower(node.points, builder), via="all"), changes=True)
    found = builder.add(EventSync(), [builder.release(below), points], schema(node))
    return replace(found, partitioned=below.partitioned, ends=below.ends, released=False)


@_lower.register
def _(node: logical.Restamp, builder: Builder) -> Port:
    below, known = lower(node.input, builder), properties.keys(node.input)
    if not known:
        return _stateless(Stamp(), below, schema(node), builder)
    return _stateful(Restamp(known), below, known, schema(node), builder)


def _stateful(
    operator: object, below: Port, keys: tuple[str, ...], columns: pa.Schema, builder: Builder
) -> Port:  # fmt: skip
    """A vertex that takes changes, with rows that are equal in `keys` on one target."""
    ready = builder.release(builder.route(below, keys), changes=True)
    return replace(builder.add(operator, [ready], columns, single=not keys), partitioned=ready.partitioned)


@_lower.register
def _(node: logical.Distinct, builder: Builder) -> Port:
    columns = schema(node)
    return _stateful(Distinct(), lower(node.input, builder), tuple(columns.names), columns, builder)


@_lower.register
def _(node: logical.GroupBy, builder: Builder) -> Port:
    operator = GroupBy(
        node.keys, node.aggregates, schema(node.input), node.bound, append_only=properties.append_only(node.input)
    )  # fmt: skip
    found = _stateful(operator, lower(node.input, builder), node.keys, schema(node), builder)
    return replace(found, partitioned=frozenset(one for one in found.partitioned if set(one) <= set(node.keys)))


@_lower.register
def _(node: logical.TopK, builder: Builder) -> Port:
    operator = TopK(
        node.partition, node.order, node.limit, node.offset, node.method, node.rank, schema(node.input),
        append_only=properties.append_only(node.input),
    )  # fmt: skip
    return _stateful(operator, lower(node.input, builder), node.partition, schema(node), builder)


@_lower.register
def _(node: logical.WindowFunctions, builder: Builder) -> Port:
    operator = Over(node.calls)
    return _stateful(operator, lower(node.input, builder), node.calls[0].partition, schema(node), builder)


@_lower.register
def _(node: logical.RowWindow, builder: Builder) -> Port:
    operator = RowWindow(node.rows, node.partition, node.slide)
    return _stateful(operator, lower(node.input, builder), node.partition, schema(node), builder)


@_lower.register
def _(node: logical.Session, builder: Builder) -> Port:
    operator = Session(node.column, node.gap, node.partition)
    return _stateful(operator, lower(node.input, builder), node.partition, schema(node), builder)


@_lower.register
def _(node: logical.ToStream, builder: Builder) -> Port:
    below, columns = lower(node.input, builder), schema(node)
    if node.kind == "istream" and properties.append_only(node.input):
        return below
    operators = {"istream": Istream(), "dstream": Dstream(), "rstream": Rstream(node.points or Periodic(1))}
    return _stateful(operators[node.kind], below, tuple(columns.names), columns, builder)


@_lower.register
def _(node: logical.Union, builder: Builder) -> Port:
    columns = schema(node)
    return _sum([_as(lower(one, builder), columns, builder) for one in node.inputs], columns, builder)


def _as(port: Port, columns: pa.Schema, builder: Builder) -> Port:
    """The port under the column names of a union."""
    if port.schema.names == columns.names:
        return port
    pairs = zip(columns, port.schema, strict=True)
    outputs = tuple((new.name, Column(old.name, old.type, old.nullable)) for new, old in pairs)
    names = dict(zip(port.schema.names, columns.names, strict=True))
    return replace(_stateless(Project(outputs), port, columns, builder), partitioned=port.renamed(names))


def _sum(ports: list[Port], columns: pa.Schema, builder: Builder) -> Port:
    found = reduce(lambda left, right: builder.add(Union(), [left, right], columns), ports)
    common = frozenset.intersection(*(port.partitioned for port in ports))
    released, ends = all(port.released for port in ports), any(port.ends for port in ports)
    return replace(found, partitioned=common, released=released, ends=ends)


@_lower.register
def _(node: logical.SetOperation, builder: Builder) -> Port:
    columns = schema(node)
    names = tuple(columns.names)
    sides = [_as(lower(one, builder), columns, builder) for one in (node.left, node.right)]
    ready = [builder.release(one, changes=True) for one in _aligned(sides, [names, names])]
    found = builder.add(SetOperation(node.kind), ready, columns)
    return replace(found, partitioned=ready[0].partitioned)


def _aligned(ports: list[Port], keys: list[tuple[str, ...]]) -> list[Port]:
    """Both ports with rows of equal keys on one target: as one of them is partitioned already, else by all keys."""
    left, right = ports
    to_right = dict(zip(keys[0], keys[1], strict=True))
    for known in sorted(left.partitioned):
        if set(known) <= set(keys[0]):
            wanted = tuple(to_right[key] for key in known)
            return [left, right if wanted in right.partitioned else _sent(right, wanted)]
    to_left = dict(zip(keys[1], keys[0], strict=True))
    for known in sorted(right.partitioned):
        if set(known) <= set(keys[1]):
            return [_sent(left, tuple(to_left[key] for key in known)), right]
    return [_sent(left, keys[0]), _sent(right, keys[1])]


def _sent(port: Port, keys: tuple[str, ...]) -> Port:
    return replace(port, via=keys, partitioned=frozenset({keys}))


@_lower.register
def _(node: logical.Join, builder: Builder) -> Port:
    if node.outer != "none":
        return lower(_outer(node), builder)
    left, right = _sides(node, builder)
    columns = schema(replace(node, residual=None))
    pairs = [tuple(names) for names in zip(*node.on, strict=True)] or [(), ()]
    found = builder.add(Join(pairs[0], pairs[1], node.nulls_equal), [left, right], columns)
    partitioned: Partitioning = left.partitioned | right.partitioned
    joined = replace(found, partitioned=partitioned, ends=left.ends or right.ends)
    return joined if node.residual is None else _stateless(Filter(node.residual), joined, columns, builder)


def _sides(node: logical.Join | logical.SemiJoin, builder: Builder) -> tuple[Port, Port]:
    keys = [tuple(names) for names in zip(*node.on, strict=True)] or [(), ()]
    sides = [lower(node.left, builder), lower(node.right, builder)]
    left, right = (builder.release(one) for one in _aligned(sides, keys))
    return left, right


def _outer(node: logical.Join) -> logical.Node:
    """A ⟕ B is A ⋈ B and the rows of A without a partner, padded with NULLs."""
    parts: list[logical.Node] = [replace(node, outer="none")]
    columns = schema(node)
    if node.outer in ("left", "full"):
        parts.append(_padded(_without_partner(node), columns))
    if node.outer in ("right", "full"):
        parts.append(_padded(_without_partner(_swapped(node)), columns))
    return logical.Union(tuple(parts))


def _without_partner(node: logical.Join) -> logical.SemiJoin:
    return logical.SemiJoin(node.left, node.right, node.on, node.residual, anti=True, nulls_equal=node.nulls_equal)


def _swapped(node: logical.Join) -> logical.Join:
    on = tuple((theirs, mine) for mine, theirs in node.on)
    return replace(node, left=node.right, right=node.left, on=on)


def _padded(node: logical.SemiJoin, columns: pa.Schema) -> logical.Project:
    held = schema(node)
    outputs: list[tuple[str, Expression]] = []
    for column in columns:
        known = column.name in held.names
        value: Expression = Column(column.name, column.type, held.field(column.name).nullable) if known else Literal(
            None, column.type)  # fmt: skip
        outputs.append((column.name, value))
    return logical.Project(node, tuple(outputs))


@_lower.register
def _(node: logical.SemiJoin, builder: Builder) -> Port:
    """A ⋉ B joins A with the distinct keys of B; with a residual, with the distinct rows of A that have a partner."""
    left, _ = _sides(node, builder)
    columns = schema(node)
    partners, on, equal = _partners(node)
    held = lower(partners, builder)
    pairs = [tuple(names) for names in zip(*on, strict=True)] or [(), ()]
    sides = [builder.release(one) for one in _aligned([left, held], pairs)]
    joined = builder.add(Join(pairs[0], pairs[1], equal), sides, pa.schema([*columns, *held.schema]))
    kept = replace(joined, partitioned=sides[0].partitioned, ends=left.ends)
    outputs = tuple((column.name, Column(column.name, column.type, column.nullable)) for column in columns)
    matched = _stateless(Project(outputs), kept, columns, builder)
    if not node.anti:
        return matched
    return _sum([sides[0], _stateless(Negate(), matched, columns, builder)], columns, builder)


def _partners(node: logical.SemiJoin) -> tuple[logical.Node, tuple[tuple[str, str], ...], bool]:
    """The distinct keys that make a row of the left side stay, and which columns they are compared with."""
    if node.residual is None:
        right = schema(node.right)
        outputs = tuple((f"__partner{at}", _column(right, name)) for at, (_, name) in enumerate(node.on))
        if not outputs:
            return logical.Distinct(logical.Project(node.right, ((_ANY, Literal(True, pa.bool_())),))), (), False
        on = tuple((mine, name) for (mine, _), (name, _) in zip(node.on, outputs, strict=True))
        return logical.Distinct(logical.Project(node.right, outputs)), on, node.nulls_equal
    joined = logical.Join(node.left, node.right, node.on, node.residual, nulls_equal=node.nulls_equal)
    left = schema(node.left)
    outputs = tuple((f"__partner{at}", _column(left, name)) for at, name in enumerate(left.names))
    on = tuple((name, partner) for name, (partner, _) in zip(left.names, outputs, strict=True))
    return logical.Distinct(logical.Project(joined, outputs)), on, True


def _column(columns: pa.Schema, name: str) -> Column:
    found = columns.field(name)
    return Column(name, found.type, found.nullable)
