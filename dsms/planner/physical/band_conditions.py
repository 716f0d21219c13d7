"""Finds the bands of a join, which are the conditions in its residual that bound the distance between values of both
sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal as Choice

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import conjuncts, total
from operators.expressions import MIRRORED_ORDERS, Call, Column, Expression, Literal, columns
from operators.joins.band_range import Band
from operators.kernels.points import has_points

_KINDS: dict[str, Choice["exact", "single", "double"]] = {"float": "single", "double": "double"}
_Comparison = tuple[str, Expression, Expression]
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Distance:
    """The condition `low ≤ left - right ≤ high`: `left` is an expression over the left side, `right` one of the same
    type over the right side, and `band` has the bounds, without column names."""

    left: Expression
    right: Expression
    band: Band

    def __and__(self, other: Distance) -> Distance:
        """The intersection: the tighter of the two lower bounds and the tighter of the two upper bounds."""
        low, low_open = _tighter(self.band.low, self.band.low_open, other.band.low, other.band.low_open, 1)
        high, high_open = _tighter(self.band.high, self.band.high_open, other.band.high, other.band.high_open, -1)
        terms = max(self.band.terms, other.band.terms)
        return replace(self, band=Band("", "", low, high, low_open, high_open, self.band.kind, terms))


def near_pairs(node: logical.Join) -> tuple[Distance, ...]:
    """The bands in a join's residual that the join can use to find pairs.

    The result is the first distance that is bounded on both sides. If none is, it is two distances, one bounded from
    below and one from above (as in `a.x BETWEEN b.low AND b.high`), or the first distance that is bounded on one side.

    Pairs outside a band fail the residual, so the join need not consider them. If the join compares the key of a side,
    each row of the other side has at most one partner; then sorting is worthwhile only for a band that is bounded on
    both sides.
    """
    distances: dict[tuple[Expression, Expression], Distance] = {}
    for distance in _distances(node):
        pair = (distance.left, distance.right)
        distances[pair] = distances[pair] & distance if pair in distances else distance
    every = list(distances.values())
    if closed := [distance for distance in every if distance.band.low is not None and distance.band.high is not None]:
        return (closed[0],)
    if _compares_a_key(node):
        return ()
    return _interval(every) or tuple(every[:1])


def _interval(distances: Sequence[Distance]) -> tuple[Distance, ...]:
    """A distance bounded from below and one bounded from above; () if one of them is missing. Two distances with a
    common side are preferred: that side is a point, and the other sides are the ends of an interval.
    """
    lows = [distance for distance in distances if distance.band.low is not None]
    highs = [distance for distance in distances if distance.band.high is not None]
    both = [(low, high) for low in lows for high in highs]
    shared = [(low, high) for low, high in both if low.left == high.left or low.right == high.right]
    return next(iter([*shared, *both]), ())


def _compares_a_key(node: logical.Join) -> bool:
    """Whether the columns compared for equality contain a key of one of the sides."""
    pairs = ((keys(node.left), {mine for mine, _ in node.on}), (keys(node.right), {theirs for _, theirs in node.on}))
    return any(key and set(key) <= compared for key, compared in pairs)


def _distances(node: logical.Join) -> Iterator[Distance]:
    sides = frozenset(schema(node.left).names), frozenset(schema(node.right).names)
    for function, first, second in _comparisons(node.residual):
        if columns(first) <= sides[0] and columns(second) <= sides[1]:
            yield from _distance(function, first, second)
        elif columns(first) <= sides[1] and columns(second) <= sides[0]:
            yield from _distance(MIRRORED_ORDERS[function], second, first)


def _comparisons(residual: Expression | None) -> Iterator[_Comparison]:
    """The conjuncts that are comparisons. `a - b < 3` also yields `a < b + 3`; `abs(a - b) < 3` also yields `a < b + 3`
    and `a > b - 3`.
    """
    for part in conjuncts(residual):
        if not isinstance(part, Call) or part.function not in MIRRORED_ORDERS:
            continue
        first, second = part.arguments
        yield part.function, first, second
        yield from _differences(part.function, first, second)
        yield from _differences(MIRRORED_ORDERS[part.function], second, first)


def _differences(function: str, first: Expression, second: Expression) -> Iterator[_Comparison]:
    match first, second:
        case Call("subtract", (a, b)), Literal() if a.type == b.type == first.type:
            yield function, a, Call("add", (b, second), first.type)
        case Call("abs", (Call("subtract", (a, b)),)), Literal() if function.startswith("less"):
            if a.type == b.type == first.type:
                yield function, a, Call("add", (b, second), first.type)
                yield MIRRORED_ORDERS[function], a, Call("subtract", (b, second), first.type)


def _distance(function: str, left: Expression, right: Expression) -> Iterator[Distance]:
    """The comparison `left function right` as a distance. Constants are moved to the bound: `x + 2 < y + 5` becomes
    x - y < 3."""
    (x, left_constant), (y, right_constant) = _without_constant(left), _without_constant(right)
    usable = all(columns(part) and (isinstance(part, Column) or total(part)) for part in (x, y))
    if not usable or x.type != y.type or not has_points(x.type):
        return
    is_low, open_ = function.startswith("greater"), not function.endswith("or_equal")
    bound, terms = right_constant - left_constant, abs(right_constant) + abs(left_constant)
    low, high = (bound, None) if is_low else (None, bound)
    kind = _KINDS.get(str(x.type), "exact")
    yield Distance(x, y, Band("", "", low, high, is_low and open_, not is_low and open_, kind, terms))


def _without_constant(expression: Expression) -> tuple[Expression, float]:
    """Splits an expression into the sum of another expression and a constant, in the unit of the type's points."""
    match expression:
        case Call("add", (Literal() as constant, below)) | Call("add", (below, Literal() as constant)):
            sign = 1
        case Call("subtract", (below, Literal() as constant)):
            sign = -1
        case Call("widen", (below,)) if pa.types.is_integer(below.type) and pa.types.is_integer(expression.type):
            value, distance = _without_constant(below)
            return (replace(expression, arguments=(value,)), distance) if distance else (expression, 0)
        case _:
            return expression, 0
    length = _length(constant, expression.type)
    return (expression, 0) if length is None or below.type != expression.type else (below, sign * length)


def _length(constant: Literal, type_: pa.DataType) -> float | None:
    """A constant in the unit of the points of a type; None if it has no fixed length, like a month."""
    value = constant.value
    if value is None:
        return None
    if pa.types.is_timestamp(type_) and isinstance(value, tuple):
        months, days, microseconds = value
        return None if months else days * _DAY + microseconds
    if pa.types.is_integer(type_) or pa.types.is_date32(type_):
        return value if isinstance(value, int) else None
    return value if isinstance(value, float) and math.isfinite(value) else None


def _tighter(
    first: float | None, first_open: bool, second: float | None, second_open: bool, sign: int
) -> tuple[float | None, bool]:
    """The tighter of two bounds, and whether it is open: the greater of lower bounds (`sign` 1), the smaller of upper
    bounds (`sign` -1), the open one of equal bounds.
    """
    if first is None or second is None:
        return (second, second_open) if first is None else (first, first_open)
    if first == second:
        return first, first_open or second_open
    return (first, first_open) if sign * first > sign * second else (second, second_open)
