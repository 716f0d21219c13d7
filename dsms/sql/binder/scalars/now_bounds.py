"""Solves linear comparisons with Now for Now: computes integer bounds on the instants at which they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.predicates import is_now
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.interval import parse_interval
from operators.core.errors import SqlError
from operators.expressions import Expression, Interval, Literal, call, cast, type_name
from operators.sync.sync_points import Periodic

NOW_HINT = "use Now in WHERE, in comparisons linear in Now such as R.TS BETWEEN Now - 4 AND Now"
#: The key in the `meta` of a column Now for the points at which this Now advances.
POINTS = "points"
_BIGINT = pa.int64()
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True)
class Bound:
    """`lower ≤ Now < upper`, for a Now that advances at `points` (None: at every instant)."""

    lower: Expression | None = None
    upper: Expression | None = None
    points: Periodic | None = None


@dataclass(frozen=True)
class _Linear:
    """The linear form `slope` · Now + Σ factor · term."""

    slope: int = 0
    terms: tuple[tuple[int, Expression], ...] = ()
    points: frozenset[Periodic | None] = field(default_factory=frozenset)

    def plus(self, other: _Linear, factor: int = 1) -> _Linear:
        """The sum with `factor` times another form."""
        more = tuple((factor * sign, term) for sign, term in other.terms)
        return _Linear(self.slope + factor * other.slope, (*self.terms, *more), self.points | other.points)


def bound_of(left: exp.Expr, right: exp.Expr, kind: type[exp.Expr], scope: Scope) -> Bound:
    """The instants at which `left kind right` holds. Raises SqlError for comparisons that are not linear in Now.

    a·Now > x is Now ≥ ⌊x/a⌋ + 1, a·Now ≥ x is Now ≥ ⌈x/a⌉, a·Now < x is Now < ⌈x/a⌉, a·Now ≤ x is Now < ⌊x/a⌋ + 1.
    """
    form = _linear(left, scope).plus(_linear(right, scope), -1)
    parent = left.parent or left
    if not form.slope:
        raise error_at(parent, f'Now cancels out in "{parent.sql()}"', hint="compare without Now")
    if len(form.points) > 1:
        raise error_at(parent, "clocks with different points cannot be compared")
    # instants are compared with timestamps in microseconds: an instant is then a millisecond
    scale = 1000 if any(_is_date_or_time(term) for _, term in form.terms) else 1
    side = 1 if form.slope > 0 else -1
    rest = _sum([(-side * factor, _integer(term, scale)) for factor, term in form.terms])
    return _solved(side * form.slope * scale, rest, kind if side > 0 else _MIRRORED[kind], next(iter(form.points)))


def _solved(slope: int, rest: Expression, kind: type[exp.Expr], points: Periodic | None) -> Bound:
    """The bound that `slope · Now kind rest` puts on Now, where slope > 0."""
    above, ceiling = _plus(_floor(rest, slope), 1), _floor(_plus(rest, slope - 1), slope)
    if kind is exp.EQ:
        return Bound(ceiling, above, points)
    if kind in (exp.GT, exp.GTE):
        return Bound(above if kind is exp.GT else ceiling, None, points)
    return Bound(None, ceiling if kind is exp.LT else above, points)


def _linear(node: exp.Expr, scope: Scope) -> _Linear:
    timed = any(is_now(column, scope) for column in node.find_all(exp.Column))
    if not timed and not _adds_interval(node):
        return _Linear(0, ((1, _value(node, scope)),))
    match node:
        case exp.Column():
            return _Linear(1, (), frozenset([node.meta.get(POINTS)]))
        case exp.Paren():
            return _linear(node.this, scope)
        case exp.Neg():
            return _Linear().plus(_linear(node.this, scope), -1)
        case exp.Add():
            return _linear(node.this, scope).plus(_linear(node.expression, scope))
        case exp.Sub():
            return _linear(node.this, scope).plus(_linear(node.expression, scope), -1)
        case exp.Mul():
            return _product(node, scope)
    raise _not_linear(node)


def _adds_interval(node: exp.Expr) -> bool:
    """Whether a node is a sum with an interval, such as `R.TS + INTERVAL '1' MINUTE`, where the interval means a number
    of instants."""
    return isinstance(node, exp.Add | exp.Sub) and any(
        isinstance(side.unnest(), exp.Interval) for side in (node.this, node.expression)
    )


def _product(node: exp.Mul, scope: Scope) -> _Linear:
    for factor, other in ((node.this, node.expression), (node.expression, node.this)):
        value = factor.unnest()
        sign = -1 if isinstance(value, exp.Neg) else 1
        number = value.this if isinstance(value, exp.Neg) else value
        if isinstance(number, exp.Literal) and not number.is_string and number.name.isdecimal():
            return _Linear().plus(_linear(other, scope), sign * int(number.name))
    raise _not_linear(node)


def _not_linear(node: exp.Expr) -> SqlError:
    hint = "have: Now + e, Now - e, n * Now; for every n-th instant use a synchronisation stream"
    return error_at(node, f'"{node.sql()}" is not linear in Now', hint=hint)


def _value(node: exp.Expr, scope: Scope) -> Expression:
    """A term without Now: a whole number of instants, an interval of fixed length, or a date or timestamp."""
    if isinstance(node.unnest(), exp.Interval):
        return Literal(_milliseconds(node.unnest()), _BIGINT)
    bound = bind_expression(node, scope)
    if pa.types.is_integer(bound.type) or _is_date_or_time(bound):
        return bound
    raise error_at(node, f"Now is compared with instants (BIGINT) and TIMESTAMPs, not with {type_name(bound.type)}")


def _milliseconds(node: exp.Expr) -> int:
    assert isinstance(node, exp.Interval)
    return milliseconds_of(parse_interval(node), node)


def milliseconds_of(interval: Interval, node: exp.Expr) -> int:
    """The length of an interval in instants. Raises SqlError for months and for fractions of a millisecond.

    >>> milliseconds_of(Interval(0, 1, 500_000), exp.Interval())
    86400500
    """
    if interval.months:
        raise error_at(node, "months and years have no fixed length here", hint="give the length in days")
    micros = interval.days * 86_400_000_000 + interval.microseconds
    if micros % 1000:
        raise error_at(node, "the interval is not a whole number of milliseconds")
    return micros // 1000


def _is_date_or_time(term: Expression) -> bool:
    return pa.types.is_timestamp(term.type) or pa.types.is_date(term.type)


def _integer(term: Expression, scale: int) -> Expression:
    if _is_date_or_time(term):
        return call("epoch_us", cast(term, pa.timestamp("us")))
    integer = cast(term, _BIGINT) if not isinstance(term, Literal) else Literal(term.value, _BIGINT)
    return integer if scale == 1 else call("multiply", integer, Literal(scale, _BIGINT))


def _sum(terms: list[tuple[int, Expression]]) -> Expression:
    """Σ factor · term, with the constants combined."""
    constant = sum(factor * (_number(term) or 0) for factor, term in terms)
    total: Expression | None = None
    for factor, term in terms:
        if _number(term) is None:
            scaled = term if abs(factor) == 1 else call("multiply", term, Literal(abs(factor), _BIGINT))
            total = _added(total, scaled, factor > 0)
    return Literal(constant, _BIGINT) if total is None else _plus(total, constant)


def _number(term: Expression) -> int | None:
    return term.value if isinstance(term, Literal) and isinstance(term.value, int) else None


def _added(total: Expression | None, term: Expression, positive: bool) -> Expression:
    if total is None:
        return term if positive else call("negate", term)
    return call("add" if positive else "subtract", total, term)


def _plus(value: Expression, number: int) -> Expression:
    if (known := _number(value)) is not None:
        return Literal(known + number, _BIGINT)
    if not number:
        return value
    return call("add" if number > 0 else "subtract", value, Literal(abs(number), _BIGINT))


def _floor(value: Expression, divisor: int) -> Expression:
    """⌊value / divisor⌋: division truncates, so the remainder is subtracted first, as in ⌊-7 / 4⌋ = (-7 - 1) / 4 =
    -2."""
    if divisor == 1:
        return value
    if (known := _number(value)) is not None:
        return Literal(known // divisor, _BIGINT)
    return call("divide", call("subtract", value, _modulo(value, divisor)), Literal(divisor, _BIGINT))


def _modulo(value: Expression, divisor: int) -> Expression:
    """The remainder in [0, divisor)."""
    modulus = Literal(divisor, _BIGINT)
    return call("modulo", call("add", call("modulo", value, modulus), modulus), modulus)


def next_point(bound: Expression, points: Periodic | None) -> Expression:
    """The first of `points` at or after a bound: the instant at which a Now that advances at `points` reaches it."""
    if points is None or points.period == 1:
        return bound
    waits = [_modulo(call("subtract", Literal(residue, _BIGINT), bound), points.period) for residue in points.residues]
    return call("add", bound, waits[0] if len(waits) == 1 else call("least", *waits))


def tightest(function: str, bounds: Iterable[Expression]) -> Expression | None:
    """The greatest or least of the bounds, or NULL if one of them is NULL: the condition is then not TRUE. None if
    there are no bounds."""
    unique = list(dict.fromkeys(bounds))
    order = "greater_or_equal" if function == "greatest" else "less_or_equal"
    return reduce(lambda left, right: _chosen(order, left, right), unique) if unique else None


def _chosen(order: str, left: Expression, right: Expression) -> Expression:
    numbers = _number(left), _number(right)
    if numbers[0] is not None and numbers[1] is not None:
        pick = max if order == "greater_or_equal" else min
        return Literal(pick(numbers[0], numbers[1]), _BIGINT)
    wins, loses = call(order, left, right), call("not", call(order, left, right))
    return call("case", wins, left, loses, right, Literal(None, _BIGINT))
