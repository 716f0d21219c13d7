"""Builds as-of joins from bound conditions: equalities between the sides and one comparison of their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at
from dsms.model.schema import schema
from dsms.sql.binder.from_clause.joins import Pair, equality, numbered
from dsms.sql.binder.scalars.conditions import conjuncts, extended, names_of, select_columns, within
from operators.core.errors import SqlError
from operators.expressions import MIRRORED_ORDERS, Call, Expression, call, columns, type_name
from operators.kernels.points import has_points

Comparison = Literal["greater", "greater_or_equal", "less", "less_or_equal"]
_HINT = "for example a ASOF JOIN b ON a.k = b.k AND a.t >= b.t"


def asof_join(
    left: logical.Node, right: logical.Node, conditions: Sequence[Expression], *, outer: bool, table: exp.Expr
) -> logical.Node:
    """The as-of join of plans with disjoint column names. Raises SqlError unless the conditions are equalities between
    the sides and exactly one comparison."""
    names = [*schema(left).names, *schema(right).names]
    equal, (comparison, left_time, right_time) = _split(conditions, left, right, table)
    if not has_points(left_time.type):
        kinds = "numbers (a DECIMAL of at most 18 digits), dates or timestamps"
        raise error_at(table, f"ASOF JOIN compares {kinds}, not {type_name(left_time.type)}")
    left, (*left_keys, left_at) = extended(left, numbered("__k", [*(key for key, _ in equal), left_time]))
    right, (*right_keys, right_at) = extended(right, numbered("__m", [*(key for _, key in equal), right_time]))
    on = dict.fromkeys(
        (left_key.name, right_key.name) for left_key, right_key in zip(left_keys, right_keys, strict=True)
    )
    node = logical.AsofJoin(left, right, tuple(on), left_at.name, right_at.name, comparison, outer)
    return select_columns(node, names)


def by_using(conditions: Sequence[Expression]) -> list[Expression]:
    """The conditions of USING (k, t): the last columns are compared by >=, the others are equal."""
    *equal, last = conditions
    assert isinstance(last, Call)
    return [*equal, call("greater_or_equal", *last.arguments)]


def _split(
    conditions: Sequence[Expression], left: logical.Node, right: logical.Node, table: exp.Expr
) -> tuple[list[Pair], tuple[Comparison, Expression, Expression]]:
    """The pairs of expressions that must be equal, and the comparison, each with the left side first."""
    sides = names_of(left), names_of(right)
    equal: list[Pair] = []
    times: list[tuple[Comparison, Expression, Expression]] = []
    for predicate in (part for whole in conditions for part in conjuncts(whole)):
        if (pair := equality(predicate, *sides)) is not None:
            equal.append(pair)
        elif (time := _comparison(predicate, *sides)) is not None:
            times.append(time)
        else:
            raise _condition_error(table, "every condition of ASOF JOIN must compare its two sides")
    if len(times) != 1:
        raise _condition_error(table, f"ASOF JOIN needs exactly one comparison by >=, >, <= or <, not {len(times)}")
    return equal, times[0]


def _condition_error(table: exp.Expr, message: str) -> SqlError:
    return error_at(table, message, hint=_HINT)


def _comparison(
    predicate: Expression, left: frozenset[str], right: frozenset[str]
) -> tuple[Comparison, Expression, Expression] | None:
    if not isinstance(predicate, Call) or predicate.function not in MIRRORED_ORDERS:
        return None
    first, second = predicate.arguments
    if not columns(first) or not columns(second):
        return None
    if within(first, left) and within(second, right):
        return cast(Comparison, predicate.function), first, second
    if within(first, right) and within(second, left):
        return cast(Comparison, MIRRORED_ORDERS[predicate.function]), second, first
    return None
