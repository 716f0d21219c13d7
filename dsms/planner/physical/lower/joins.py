"""Lowers joins: inner and as-of joins to an operator, outer and semi-joins to compositions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.physical.band_conditions import Distance, near_pairs
from dsms.planner.physical.builder import Builder, Partitioning, Port
from dsms.planner.physical.column_bounds import ColumnBounds, arrivals, bounds
from dsms.planner.physical.lower.dispatch import lower, lowering, stateless
from dsms.planner.physical.lower.forgetting import Limit, Limited, common_life, forgetting, limits_of
from dsms.planner.physical.lower.sides import aligned, union_all
from operators.core.sort_key import SortKey
from operators.expressions import Column, Expression, Literal
from operators.joins.asof_join import AsofJoin
from operators.joins.band_join import BandJoin
from operators.joins.band_range import Band
from operators.joins.interval_join import IntervalJoin
from operators.joins.join import Join
from operators.relational.filter import Filter
from operators.relational.negate import Negate
from operators.relational.project import Project

#: A column, and the bounds of the columns of its relation.
Bound = tuple[str, ColumnBounds]
_HAS_PARTNER = "__partner"


@lowering.register
def _(node: logical.Join, builder: Builder) -> Port:
    if node.outer != "none":
        return lower(_outer(node), builder)
    if distances := near_pairs(node):
        return _add_near_join(node, distances, builder)
    return _add_join(node, (), builder)


def _add_join(node: logical.Join, bands: tuple[Band, ...], builder: Builder) -> Port:
    """The pairs with equal keys that are in the bands, filtered by the residual."""
    pairs = _keys(node.on)
    sides = aligned([lower(node.left, builder), lower(node.right, builder)], pairs)
    left, right = builder.release(sides)
    columns = schema(replace(node, residual=None))
    operator = _join_of(Join(pairs[0], pairs[1], node.nulls_equal), bands)
    limited = _limited_columns(node.on, arrivals(node.left), arrivals(node.right))
    forgetful, ports = forgetting(operator, [left, right], limited, builder)
    added = builder.add(forgetful, ports, columns)
    partitioned: Partitioning = left.partitioned | right.partitioned
    joined = replace(added, partitioned=partitioned, ends=left.ends or right.ends)
    return joined if node.residual is None else stateless(Filter(node.residual), joined, columns, builder)


def _limited_columns(on: tuple[tuple[str, str], ...], left: ColumnBounds, right: ColumnBounds) -> list[Limited]:
    """The key columns by which the traces of the left side (0) and of the right side (1) drop state. Rows of one side
    look up the other side, so the bounds of the key columns of one side limit the other.
    """
    of_left = [(0, mine, limit) for mine, theirs in on for limit in _limits((mine, left), (theirs, right))]
    of_right = [(1, theirs, limit) for mine, theirs in on for limit in _limits((theirs, right), (mine, left))]
    return [*of_left, *of_right]


def _limits(stored: Bound, looked_up_by: Bound) -> list[Limit]:
    """The limits of the column by which one side looks up the other. A life is used only if the values of both columns
    come from the same clustered column.
    """
    (stored_name, of_stored), (name, known) = stored, looked_up_by
    life = common_life([*of_stored.lives.get(stored_name, ()), *known.lives.get(name, ())])
    usable = life is not None and stored_name in of_stored.lives
    return limits_of(name, known if usable else known._replace(lives={}))


def _join_of(plain: Join, bands: tuple[Band, ...]) -> Join:
    if not bands:
        return plain
    of_keys = plain.left_keys, plain.right_keys, plain.nulls_equal
    if len(bands) == 1:
        return BandJoin(*of_keys, band=bands[0])
    return IntervalJoin(*of_keys, low=bands[0], high=bands[1])


def _add_near_join(node: logical.Join, distances: tuple[Distance, ...], builder: Builder) -> Port:
    """Adds the join; its sides get columns with the values that the bands compare."""
    columns, left, right, bands = schema(node), node.left, node.right, []
    for distance in distances:
        left, mine = _with_value(left, distance.left, [*schema(left).names, *schema(right).names])
        right, theirs = _with_value(right, distance.right, [*schema(left).names, *schema(right).names])
        bands.append(replace(distance.band, left=mine, right=theirs))
    joined = _add_join(replace(node, left=left, right=right), tuple(bands), builder)
    if joined.schema.names == columns.names:
        return joined
    return stateless(Project(unchanged(columns)), joined, columns, builder)


def _with_value(node: logical.Node, value: Expression, taken: list[str]) -> tuple[logical.Node, str]:
    """The node with the value as a column, and the name of that column."""
    if isinstance(value, Column):
        return node, value.name
    name = "__near"
    while name in taken:
        name += "'"
    return logical.Project(node, (*unchanged(schema(node)), (name, value))), name


def _keys(on: tuple[tuple[str, str], ...]) -> list[tuple[str, ...]]:
    """The key columns of the left side, and those of the right side."""
    return [tuple(names) for names in zip(*on, strict=True)] or [(), ()]


def _outer(node: logical.Join) -> logical.Node:
    """An outer join as the union of the inner join and the rows without a partner, padded with NULLs."""
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
    """The node with all of `columns`; columns that it does not have are NULL."""
    available = schema(node)
    outputs: dict[str, Expression] = {field.name: Literal(None, field.type) for field in columns}
    outputs |= {name: _column(available, name) for name in available.names}
    return logical.Project(node, tuple(outputs.items()))


@lowering.register
def _(node: logical.SemiJoin, builder: Builder) -> Port:
    """A ⋉ B is the join of A with the distinct keys of B; with a residual, the join of A with the distinct rows of A
    that have a partner. A ▷ B is A minus A ⋉ B."""
    left = aligned([lower(node.left, builder), lower(node.right, builder)], _keys(node.on))[0]
    columns = schema(node)
    partners, on, equal = _partners(node)
    right = lower(partners, builder)
    pairs = _keys(on)
    sides = builder.release(aligned([left, right], pairs))
    limited = _limited_columns(on, arrivals(node.left), bounds(partners))
    join, ports = forgetting(Join(pairs[0], pairs[1], equal), sides, limited, builder)
    added = builder.add(join, ports, pa.schema([*columns, *right.schema]))
    joined = replace(added, partitioned=sides[0].partitioned, ends=left.ends)
    matched = stateless(Project(unchanged(columns)), joined, columns, builder)
    if not node.anti:
        return matched
    return union_all([sides[0], stateless(Negate(), matched, columns, builder)], columns, builder)


def _partners(node: logical.SemiJoin) -> tuple[logical.Node, tuple[tuple[str, str], ...], bool]:
    """The relation of distinct keys in which rows of the left side look for a partner, the pairs of columns to compare,
    and whether NULL equals NULL in this comparison.
    """
    if node.residual is None:
        right = schema(node.right)
        outputs = tuple((f"__partner{at}", _column(right, name)) for at, (_, name) in enumerate(node.on))
        if not outputs:
            return (
                logical.Distinct(logical.Project(node.right, ((_HAS_PARTNER, Literal(True, pa.bool_())),))),
                (),
                False,
            )
        on = tuple((mine, name) for (mine, _), (name, _) in zip(node.on, outputs, strict=True))
        return logical.Distinct(logical.Project(node.right, outputs)), on, node.nulls_equal
    joined = logical.Join(node.left, node.right, node.on, node.residual, nulls_equal=node.nulls_equal)
    left = schema(node.left)
    outputs = tuple((f"__partner{at}", _column(left, name)) for at, name in enumerate(left.names))
    on = tuple((name, partner) for name, (partner, _) in zip(left.names, outputs, strict=True))
    return logical.Distinct(logical.Project(joined, outputs)), on, True


def _column(columns: pa.Schema, name: str) -> Column:
    field = columns.field(name)
    return Column(name, field.type, field.nullable)


@lowering.register
def _(node: logical.AsofJoin, builder: Builder) -> Port:
    """The operator requires at most one row of the right side for each key and time."""
    pairs = _keys(node.on)
    sides = aligned([lower(node.left, builder), lower(_one_for_each_time(node), builder)], pairs)
    left, right = builder.release(sides, changes=True)
    operator = AsofJoin(pairs[0], pairs[1], node.left_time, node.right_time, node.comparison, node.outer)
    return replace(builder.add(operator, [left, right], schema(node)), partitioned=left.partitioned)


def _one_for_each_time(node: logical.AsofJoin) -> logical.Node:
    """The right side, reduced to the least row of each key and time."""
    partition = tuple(dict.fromkeys([*(theirs for _, theirs in node.on), node.right_time]))
    key = keys(node.right)
    if key and set(key) <= set(partition):
        return node.right
    ties = tuple(SortKey(name) for name in schema(node.right).names if name not in partition)
    return logical.TopK(node.right, partition, ties, 1)
