"""Bands: the part of a join's residual that says how far apart two values of the sides may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal as Choice

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.optimizer.algebra.conjuncts import conjuncts, total
from operators.expressions import ORDERS, Call, Column, Expression, Literal, columns
from operators.joins.band_range import Band
from operators.kernels.points import has_points

_KINDS: dict[str, Choice["exact", "single", "double"]] = {"float": "single", "double": "double"}
_Comparison = tuple[str, Expression, Expression]
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Distance:
    """`low ≤ left - right ≤ high`; `band` names no columns yet. Both expressions are of one type and one side each."""

    left: Expression
    right: Expression
    band: Band

    def __and__(self, other: Distance) -> Distance:
        """Both bounds of both: the tighter ones."""
        low, low_open = _tighter(self.band.low, self.band.low_open, other.band.low, other.band.low_open, 1)
        high, high_open = _tighter(self.band.high, self.band.high_open, other.band.high, other.band.high_open, -1)
        terms = max(self.band.terms, other.band.terms)
        return replace(self, band=Band("", "", low, high, low_open, high_open, self.band.kind, terms))


def distance_of(node: logical.Join) -> Distance | None:
    """The band of a join's residual: of those with two ends the first, else the first; None where there is none.

    It holds wherever the residual is TRUE, so that pairs outside of it need not be looked at. Where the join has the
    key of a side, a row of the other one has a single partner: an open end is not worth sorting for.
    """
    found: dict[tuple[Expression, Expression], Distance] = {}
    for one in _distances(node):
        pair = (one.left, one.right)
        found[pair] = found[pair] & one if pair in found else one
    closed = [one for one in found.values() if one.band.low is not None and one.band.high is not None]
    return next(iter(closed if _has_a_key(node) else [*closed, *found.values()]), None)


def _has_a_key(node: logical.Join) -> bool:
    """Whether a key of one of the sides is among the columns that are equal."""
    pairs = ((keys(node.left), {mine for mine, _ in node.on}), (keys(node.right), {theirs for _, theirs in node.on}))
    return any(key and set(key) <= compared for key, compared in pairs)


def _distances(node: logical.Join) -> Iterator[Distance]:
    sides = frozenset(schema(node.left).names), frozenset(schema(node.right).names)
    for function, first, second in _comparisons(node.residual):
        if columns(first) <= sides[0] and columns(second) <= sides[1]:
            yield from _distance(function, first, second)
        elif columns(first) <= sides[1] and columns(second) <= sides[0]:
            yield from _distance(ORDERS[function], second, first)


def _comparisons(residual: Expression | None) -> Iterator[_Comparison]:
    """The conjuncts that compare; `a - b < 3` as a < b + 3, `abs(a - b) < 3` as that and a > b - 3."""
    for part in conjuncts(residual):
        if not isinstance(part, Call) or part.function not in ORDERS:
            continue
        first, second = part.arguments
        yield part.function, first, second
        yield from _differences(part.function, first, second)
        yield from _differences(ORDERS[part.function], second, first)


def _differences(function: str, first: Expression, second: Expression) -> Iterator[_Comparison]:
    match first, second:
        case Call("subtract", (one, other)), Literal() if one.type == other.type == first.type:
            yield function, one, Call("add", (other, second), first.type)
        case Call("abs", (Call("subtract", (one, other)),)), Literal() if function.startswith("less"):
            if one.type == other.type == first.type:
                yield function, one, Call("add", (other, second), first.type)
                yield ORDERS[function], one, Call("subtract", (other, second), first.type)


def _distance(function: str, left: Expression, right: Expression) -> Iterator[Distance]:
    """`left + p function right + q` as a distance between left and right."""
    (one, plus), (other, more) = _moved(left), _moved(right)
    usable = all(columns(part) and (isinstance(part, Column) or total(part)) for part in (one, other))
    if not usable or one.type != other.type or not has_points(one.type):
        return
    above, open_ = function.startswith("greater"), not function.endswith("or_equal")
    end, terms = more - plus, abs(more) + abs(plus)
    low, high = (end, None) if above else (None, end)
    kind = _KINDS.get(str(one.type), "exact")
    yield Distance(one, other, Band("", "", low, high, above and open_, not above and open_, kind, terms))


def _moved(expression: Expression) -> tuple[Expression, float]:
    """An expression as another one plus a constant, in the unit of its points."""
    match expression:
        case Call("add", (Literal() as by, below)) | Call("add", (below, Literal() as by)):
            sign = 1
        case Call("subtract", (below, Literal() as by)):
            sign = -1
        case Call("widen", (below,)) if pa.types.is_integer(below.type) and pa.types.is_integer(expression.type):
            value, distance = _moved(below)
            return (replace(expression, arguments=(value,)), distance) if distance else (expression, 0)
        case _:
            return expression, 0
    length = _length(by, expression.type)
    return (expression, 0) if length is None or below.type != expression.type else (below, sign * length)


def _length(by: Literal, kind: pa.DataType) -> float | None:
    """A constant in the unit of the points of a type; None where it has no fixed length."""
    if by.value is None:
        return None
    if pa.types.is_timestamp(kind) and isinstance(by.value, tuple):
        months, days, microseconds = by.value
        return None if months else days * _DAY + microseconds
    if pa.types.is_integer(kind) or pa.types.is_date32(kind):
        return by.value if isinstance(by.value, int) else None
    return by.value if isinstance(by.value, float) and math.isfinite(by.value) else None


def _tighter(
    one: float | None, one_open: bool, other: float | None, other_open: bool, sign: int
) -> tuple[float | None, bool]:
    if one is None or other is None:
        return (other, other_open) if one is None else (one, one_open)
    if one == other:
        return one, one_open or other_open
    return (one, one_open) if sign * one > sign * other else (other, other_open)
