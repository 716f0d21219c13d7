"""Joins: inner and as-of joins as they are, outer and semi-joins as compositions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.optimizer.algebra.column_projections import unchanged
from dsms.physical.band_conditions import Distance, distance_of
from dsms.physical.builder import Builder, Partitioning, Port
from dsms.physical.column_bounds import Bounds, bounds
from dsms.physical.lower.dispatch import lower, lowering, stateless
from dsms.physical.lower.forgetting import Bound, What, asked, forgetting, one_life
from dsms.physical.lower.sides import aligned, summed
from operators.core.sort_key import SortKey
from operators.expressions import Column, Expression, Literal
from operators.joins.asof_join import AsofJoin
from operators.joins.band_join import BandJoin
from operators.joins.band_range import Band
from operators.joins.join import Join
from operators.relational.filter import Filter
from operators.relational.negate import Negate
from operators.relational.project import Project

_ANY = "__partner"


@lowering.register
def _(node: logical.Join, builder: Builder) -> Port:
    if node.outer != "none":
        return lower(_outer(node), builder)
    if (distance := distance_of(node)) is not None:
        return _in_band(node, distance, builder)
    return _joined(node, None, builder)


def _joined(node: logical.Join, band: Band | None, builder: Builder) -> Port:
    """The pairs with equal keys that are in the band, filtered by the residual."""
    pairs = _keys(node.on)
    sides = aligned([lower(node.left, builder), lower(node.right, builder)], pairs)
    left, right = builder.release(sides)
    columns = schema(replace(node, residual=None))
    plain = Join(pairs[0], pairs[1], node.nulls_equal)
    operator = plain if band is None else BandJoin(pairs[0], pairs[1], node.nulls_equal, band=band)
    asks = _asks(node.on, bounds(node.left), bounds(node.right))
    forgetful, ports = forgetting(operator, [left, right], asks, builder)
    found = builder.add(forgetful, ports, columns)
    partitioned: Partitioning = left.partitioned | right.partitioned
    joined = replace(found, partitioned=partitioned, ends=left.ends or right.ends)
    return joined if node.residual is None else stateless(Filter(node.residual), joined, columns, builder)


def _asks(on: tuple[tuple[str, str], ...], left: Bounds, right: Bounds) -> list[Bound]:
    """A row of one side is asked for by rows of the other that are equal in the key columns."""
    mine_forgets = [(0, mine, what) for mine, theirs in on for what in _asked((mine, left), (theirs, right))]
    return [
        *mine_forgets,
        *((1, theirs, what) for mine, theirs in on for what in _asked((theirs, right), (mine, left))),
    ]


def _asked(held: tuple[str, Bounds], by: tuple[str, Bounds]) -> list[What]:
    """What is known of the side that asks: of lives only where the values of both are shown at one place."""
    (mine, here), (theirs, there) = held, by
    both = one_life([*here.lives.get(mine, ()), *there.lives.get(theirs, ())])
    return asked(theirs, there if both is not None and mine in here.lives else there._replace(lives={}))


def _in_band(node: logical.Join, distance: Distance, builder: Builder) -> Port:
    """The join with the two values of the band as columns of its sides."""
    taken = [*schema(node.left).names, *schema(node.right).names]
    left, mine = _with_value(node.left, distance.left, taken)
    right, theirs = _with_value(node.right, distance.right, [*taken, mine])
    band = replace(distance.band, left=mine, right=theirs)
    found = _joined(replace(node, left=left, right=right), band, builder)
    columns = schema(node)
    if found.schema.names == columns.names:
        return found
    return stateless(Project(unchanged(columns)), found, columns, builder)


def _with_value(node: logical.Node, value: Expression, taken: list[str]) -> tuple[logical.Node, str]:
    """The node with a value as a column, and its name."""
    if isinstance(value, Column):
        return node, value.name
    name = "__near"
    while name in taken:
        name += "'"
    return logical.Project(node, (*unchanged(schema(node)), (name, value))), name


def _keys(on: tuple[tuple[str, str], ...]) -> list[tuple[str, ...]]:
    """The key columns of the left side, and those of the right."""
    return [tuple(names) for names in zip(*on, strict=True)] or [(), ()]


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


@lowering.register
def _(node: logical.SemiJoin, builder: Builder) -> Port:
    """A ⋉ B joins A with the distinct keys of B; with a residual, with the distinct rows of A that have a partner."""
    left = aligned([lower(node.left, builder), lower(node.right, builder)], _keys(node.on))[0]
    columns = schema(node)
    partners, on, equal = _partners(node)
    held = lower(partners, builder)
    pairs = _keys(on)
    sides = builder.release(aligned([left, held], pairs))
    asks = _asks(on, bounds(node.left), bounds(partners))
    join, ports = forgetting(Join(pairs[0], pairs[1], equal), sides, asks, builder)
    joined = builder.add(join, ports, pa.schema([*columns, *held.schema]))
    kept = replace(joined, partitioned=sides[0].partitioned, ends=left.ends)
    outputs = tuple((column.name, Column(column.name, column.type, column.nullable)) for column in columns)
    matched = stateless(Project(outputs), kept, columns, builder)
    if not node.anti:
        return matched
    return summed([sides[0], stateless(Negate(), matched, columns, builder)], columns, builder)


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


@lowering.register
def _(node: logical.AsofJoin, builder: Builder) -> Port:
    """A with the rows of B of which one a key and time is left."""
    pairs = _keys(node.on)
    sides = aligned([lower(node.left, builder), lower(_one_a_time(node), builder)], pairs)
    left, right = builder.release(sides, changes=True)
    operator = AsofJoin(pairs[0], pairs[1], node.left_time, node.right_time, node.comparison, node.outer)
    return replace(builder.add(operator, [left, right], schema(node)), partitioned=left.partitioned)


def _one_a_time(node: logical.AsofJoin) -> logical.Node:
    """The right side with the least row of each key and time."""
    place = tuple(dict.fromkeys([*(theirs for _, theirs in node.on), node.right_time]))
    known = keys(node.right)
    if known and set(known) <= set(place):
        return node.right
    ties = tuple(SortKey(name) for name in schema(node.right).names if name not in place)
    return logical.TopK(node.right, place, ties, 1)
