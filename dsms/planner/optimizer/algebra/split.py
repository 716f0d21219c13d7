"""Splits a predicate into conjuncts that may move below a node and conjuncts that stay above it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from dsms.model import logical
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from operators.expressions import Call, Column, Expression, columns, walk

_COMPARISONS = frozenset(
    {"equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal", "is_null", "is_not_null"}
)
#: Whether a conjunct may move.
ConjunctTest = Callable[[Expression], bool]


def reads_only(names: Collection[str]) -> ConjunctTest:
    """A test that a conjunct is total, and reads at least one column and only columns in `names`.

    A constant conjunct must not move: it would change the result of a node that has rows even if an input is empty,
    such as an outer join.
    """
    return lambda part: set() < columns(part) <= set(names) and total(part)


def same_on_equal_rows(names: Collection[str]) -> ConjunctTest:
    """Like `reads_only`, but the conjunct must also have the same value on all rows that are equal in `names`.

    0.0 and -0.0 are equal, but only comparisons treat them alike; other functions may not.
    """
    reads = reads_only(names)
    return lambda part: reads(part) and not any(_distinguishes_zeros(operand) for operand in walk(part))


def _distinguishes_zeros(part: Expression) -> bool:
    if not isinstance(part, Call) or part.function in _COMPARISONS:
        return False
    return any(isinstance(argument, Column) and _has_float(argument.type) for argument in part.arguments)


def _has_float(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_float(type_.field(at).type) for at in range(type_.num_fields))
    return bool(pa.types.is_floating(type_))


def split(predicate: Expression | None, moves: ConjunctTest) -> tuple[Expression | None, Expression | None]:
    """The conjunction of the conjuncts that move, and the conjunction of those that stay."""
    parts = conjuncts(predicate)
    return conjunction(part for part in parts if moves(part)), conjunction(part for part in parts if not moves(part))


def filtered(node: logical.Node, predicate: Expression | None) -> logical.Node:
    """σ_predicate(node); the node itself if `predicate` is None."""
    return node if predicate is None else logical.Filter(node, predicate)
