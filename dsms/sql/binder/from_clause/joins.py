"""Builds joins from bound conditions.

An equality between the two sides becomes a pair of join keys, a predicate on one side filters that side where this is
allowed, and the other predicates become the residual predicate, which is evaluated on pairs of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.sql.binder.scalars.conditions import (
    conjunction,
    conjuncts,
    extended,
    filtered,
    names_of,
    select_columns,
    within,
)
from operators.expressions import Call, Column, Expression, call, columns

Outer = Literal["none", "left", "right", "full"]
Pair = tuple[Expression, Expression]
#: The joins for which a predicate of ON may filter the left or the right side: those that do not keep all of its rows.
_PUSHED_LEFT = ("none", "right")
_PUSHED_RIGHT = ("none", "left")


@dataclass(frozen=True)
class JoinCondition:
    """A join condition in parts. Two rows are partners if the columns of each `null_safe` pair are equal or both NULL,
    the expressions of each `equal` pair are equal, and the other predicates are TRUE: those on the `left` row alone, on
    the `right` row alone, and the `residual` ones."""

    null_safe: tuple[tuple[Column, Column], ...]
    equal: tuple[Pair, ...]
    left: tuple[Expression, ...]
    right: tuple[Expression, ...]
    residual: tuple[Expression, ...]


def join(
    left: logical.Node,
    right: logical.Node,
    conditions: Sequence[Expression],
    outer: Outer = "none",
    null_safe: Sequence[tuple[Column, Column]] = (),
) -> logical.Node:
    """The join of plans with disjoint column names. A predicate on one side filters that side before the join, unless
    the join keeps the rows of that side that have no partner."""
    names = [*schema(left).names, *schema(right).names]
    parts = split_condition(conditions, left, right, null_safe, outer in _PUSHED_LEFT, outer in _PUSHED_RIGHT)
    left, right, on, nulls_equal, residual = _keyed(left, right, parts)
    return select_columns(logical.Join(left, right, on, residual, outer, nulls_equal), names)


def semi_join(
    left: logical.Node,
    right: logical.Node,
    conditions: Sequence[Expression],
    null_safe: Sequence[tuple[Column, Column]] = (),
    *,
    anti: bool = False,
) -> logical.Node:
    """The rows of `left` with a partner in `right` or, with `anti`, those without."""
    names = schema(left).names
    parts = split_condition(conditions, left, right, null_safe, not anti, pushed_right=True)
    left, right, on, nulls_equal, residual = _keyed(left, right, parts)
    return select_columns(logical.SemiJoin(left, right, on, residual, anti, nulls_equal), names)


def split_condition(
    conditions: Sequence[Expression],
    left: logical.Node,
    right: logical.Node,
    null_safe: Sequence[tuple[Column, Column]],
    pushed_left: bool,
    pushed_right: bool,
) -> JoinCondition:
    """Splits the conjunction of some conditions over the columns of both sides. Predicates on one side are residual
    unless they are `pushed_left` or `pushed_right`, that is, may filter this side."""
    of_left, of_right = names_of(left), names_of(right)
    equal: list[Pair] = []
    sides: dict[str, list[Expression]] = {"left": [], "right": [], "both": []}
    for predicate in (part for whole in conditions for part in conjuncts(whole)):
        if (pair := equality(predicate, of_left, of_right)) is not None:
            equal.append(pair)
            continue
        side = "left" if pushed_left and within(predicate, of_left) and columns(predicate) else "both"
        side = "right" if pushed_right and within(predicate, of_right) and columns(predicate) else side
        sides[side].append(predicate)
    return JoinCondition(
        tuple(null_safe), tuple(equal), tuple(sides["left"]), tuple(sides["right"]), tuple(sides["both"])
    )


def equality(predicate: Expression, left: frozenset[str], right: frozenset[str]) -> Pair | None:
    """The operands of `a = b` if one has only columns of the left side of a join, and the other only columns of the
    right side, in this order; None for every other predicate, and if the types are different or nested."""
    if not isinstance(predicate, Call) or predicate.function != "equal":
        return None
    first, second = predicate.arguments
    if not columns(first) or not columns(second) or first.type != second.type or pa.types.is_nested(first.type):
        return None
    if within(first, left) and within(second, right):
        return first, second
    return (second, first) if within(first, right) and within(second, left) else None


def _keyed(
    left: logical.Node, right: logical.Node, parts: JoinCondition
) -> tuple[logical.Node, logical.Node, tuple[tuple[str, str], ...], bool, Expression | None]:
    """The filtered sides with the join keys as columns, the pairs of keys, whether NULL keys are equal, and the
    residual predicate. If NULL keys are equal, they are so for all keys of the join; then the residual predicate
    excludes NULL in the keys of `equal`."""
    left, left_keys = extended(filtered(left, parts.left), numbered("__k", (first for first, _ in parts.equal)))
    right, right_keys = extended(filtered(right, parts.right), numbered("__m", (second for _, second in parts.equal)))
    nulls_equal = any(first.nullable and other.nullable for first, other in parts.null_safe)
    checks = [
        call("is_not_null", first)
        for first, other in zip(left_keys, right_keys, strict=True)
        if nulls_equal and first.nullable and other.nullable
    ]
    pairs = dict.fromkeys(
        (first.name, other.name) for first, other in (*parts.null_safe, *zip(left_keys, right_keys, strict=True))
    )
    return left, right, tuple(pairs), nulls_equal, conjunction([*parts.residual, *checks])


def numbered(prefix: str, expressions: Iterable[Expression]) -> list[tuple[str, Expression]]:
    """The expressions, each named `prefix` followed by its position."""
    return [(f"{prefix}{number}", expression) for number, expression in enumerate(expressions)]
