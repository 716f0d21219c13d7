"""Predicates over Now below projections, joins and unions."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.conjuncts import total
from dsms.optimizer.rules.substitute import substitute_range
from operators.expressions import Column, Expression, column, columns
from operators.windows.now_filter import NowRange


def now_filter_below(node: logical.Node) -> logical.Node | None:
    """σ_Now(π_f(A)) = π_f(σ_{Now∘f}(A)), σ_Now(A ⊎ B) = σ_Now(A) ⊎ σ_Now(B), and σ_Now(A ⋈ B) = σ_Now(A) ⋈ B where the
    bounds are total and read A alone.

    At τ a predicate over Now is a predicate over rows, so it moves as a selection does, and rows leave the state of the
    join when their interval ends. SyncSQL section 3.2; PIPES rule 10.5.
    """
    return _below(node.input, node) if isinstance(node, logical.NowFilter) else None


@singledispatch
def _below(found: logical.Node, node: logical.NowFilter) -> logical.Node | None:
    return None


@_below.register
def _(found: logical.Project, node: logical.NowFilter) -> logical.Node | None:
    values = dict(found.outputs)
    read = {name for one in node.ranges for part in parts(one) for name in columns(part)}
    if not all(isinstance(values[name], Column) for name in read):
        return None
    return replace(found, input=_ranged(found.input, node, values))


@_below.register
def _(found: logical.Union, node: logical.NowFilter) -> logical.Node | None:
    names = schema(found).names
    return logical.Union(
        tuple(
            _ranged(one, node, {name: column(field) for name, field in zip(names, schema(one), strict=True)})
            for one in found.inputs
        )
    )


@_below.register
def _(found: logical.Join, node: logical.NowFilter) -> logical.Node | None:
    every = [part for one in node.ranges for part in parts(one)]
    if not all(total(part) for part in every):
        return None
    read = {name for part in every for name in columns(part)}
    if found.outer in ("none", "left") and read <= set(schema(found.left).names):
        return replace(found, left=logical.NowFilter(found.left, node.ranges))
    if found.outer in ("none", "right") and read <= set(schema(found.right).names):
        return replace(found, right=logical.NowFilter(found.right, node.ranges))
    return None


def _ranged(node: logical.Node, held: logical.NowFilter, values: dict[str, Expression]) -> logical.Node:
    return logical.NowFilter(node, tuple(substitute_range(one, values) for one in held.ranges))


def parts(one: NowRange) -> list[Expression]:
    """The expressions of a range."""
    return [part for part in (one.lower, one.upper, one.condition) if part is not None]
