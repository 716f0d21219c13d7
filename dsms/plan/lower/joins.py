"""Joins: inner ones as they are, outer and semi-joins as compositions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.plan import logical
from dsms.plan.builder import Builder, Partitioning, Port
from dsms.plan.lower.dispatch import lower, lowering, stateless
from dsms.plan.lower.sides import aligned, summed
from dsms.plan.schema import schema
from operators.expressions import Column, Expression, Literal
from operators.filter import Filter
from operators.join import Join
from operators.negate import Negate
from operators.project import Project

_ANY = "__partner"


@lowering.register
def _(node: logical.Join, builder: Builder) -> Port:
    if node.outer != "none":
        return lower(_outer(node), builder)
    pairs = _keys(node.on)
    sides = aligned([lower(node.left, builder), lower(node.right, builder)], pairs)
    left, right = (builder.release(one) for one in sides)
    columns = schema(replace(node, residual=None))
    found = builder.add(Join(pairs[0], pairs[1], node.nulls_equal), [left, right], columns)
    partitioned: Partitioning = left.partitioned | right.partitioned
    joined = replace(found, partitioned=partitioned, ends=left.ends or right.ends)
    return joined if node.residual is None else stateless(Filter(node.residual), joined, columns, builder)


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
    asked = aligned([lower(node.left, builder), lower(node.right, builder)], _keys(node.on))
    left = builder.release(asked[0])
    columns = schema(node)
    partners, on, equal = _partners(node)
    held = lower(partners, builder)
    pairs = _keys(on)
    sides = [builder.release(one) for one in aligned([left, held], pairs)]
    joined = builder.add(Join(pairs[0], pairs[1], equal), sides, pa.schema([*columns, *held.schema]))
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
