"""The rule that moves predicates over Now below projections, joins and unions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import total
from dsms.planner.optimizer.algebra.substitute import range_expressions, substitute_range
from operators.expressions import Column, Expression, column, columns


def now_filter_below(node: logical.Node) -> logical.Node | None:
    """σ_Now(π_f(A)) = π_f(σ_{Now∘f}(A)), σ_Now(A ⊎ B) = σ_Now(A) ⊎ σ_Now(B), and σ_Now(A ⋈ B) = σ_Now(A) ⋈ B if the
    bounds are total and read only A.

    At each instant τ, a predicate over Now is a predicate over rows, so it can be moved like a filter. Below a join, it
    lets rows leave the state of the join when their interval ends. SyncSQL section 3.2; PIPES rule 10.5.
    """
    return _push(node.input, node) if isinstance(node, logical.NowFilter) else None


@singledispatch
def _push(node: logical.Node, now_filter: logical.NowFilter) -> logical.Node | None:
    return None


@_push.register
def _(node: logical.Project, now_filter: logical.NowFilter) -> logical.Node | None:
    values = dict(node.outputs)
    if not all(isinstance(values[name], Column) for name in _columns_read(now_filter)):
        return None
    return replace(node, input=_filtered(node.input, now_filter, values))


@_push.register
def _(node: logical.Union, now_filter: logical.NowFilter) -> logical.Node | None:
    names = schema(node).names
    return logical.Union(
        tuple(
            _filtered(branch, now_filter, dict(zip(names, map(column, schema(branch)), strict=True)))
            for branch in node.inputs
        )
    )


@_push.register
def _(node: logical.Join, now_filter: logical.NowFilter) -> logical.Node | None:
    if not all(total(part) for part in _expressions(now_filter)):
        return None
    read = _columns_read(now_filter)
    if node.outer in ("none", "left") and read <= set(schema(node.left).names):
        return replace(node, left=replace(now_filter, input=node.left))
    if node.outer in ("none", "right") and read <= set(schema(node.right).names):
        return replace(node, right=replace(now_filter, input=node.right))
    return None


def _filtered(node: logical.Node, now_filter: logical.NowFilter, values: Mapping[str, Expression]) -> logical.Node:
    return logical.NowFilter(node, tuple(substitute_range(now_range, values) for now_range in now_filter.ranges))


def _columns_read(now_filter: logical.NowFilter) -> set[str]:
    return {name for part in _expressions(now_filter) for name in columns(part)}


def _expressions(now_filter: logical.NowFilter) -> list[Expression]:
    return [part for now_range in now_filter.ranges for part in range_expressions(now_range)]
