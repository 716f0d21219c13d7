"""Binds lengths of time and time zones: multiples of intervals, differences of timestamps, AT TIME ZONE."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.nested.subquery_tests import OPERATORS
from dsms.sql.parser.interval import parse_interval
from operators.core.errors import UserError
from operators.expressions import Expression, Interval, Literal, call, cast

Bind = Callable[[exp.Expr], Expression]
_DAY = 86_400_000_000


def bind_time_arithmetic(node: exp.Expr, bind: Bind) -> Expression | None:
    """The bound `t + n * INTERVAL`, `a - b < INTERVAL`, `EXTRACT(EPOCH FROM a - b)` or `t AT TIME ZONE a AT TIME ZONE
    b`; None for every other node. Raises SqlError."""
    if isinstance(node, exp.Add | exp.Sub):
        return _shifted_time(node, bind)
    if type(node) in OPERATORS:
        return _length_comparison(node, bind)
    if isinstance(node, exp.Extract) and node.this.name.upper() == "EPOCH":
        return _seconds(node.expression, bind)
    return _in_zone(node, bind) if isinstance(node, exp.AtTimeZone) else None


def _shifted_time(node: exp.Add | exp.Sub, bind: Bind) -> Expression | None:
    """A timestamp plus or minus a multiple of an interval; None for every other node."""
    time, product = node.this, _multiple(node.expression)
    if product is None and isinstance(node, exp.Add):
        time, product = node.expression, _multiple(node.this)
    if product is None:
        return None
    interval, count = product
    factor = bind(count)
    if isinstance(node, exp.Sub):
        factor = call("negate", cast(factor, pa.int64()) if pa.types.is_integer(factor.type) else factor)
    return call("add_intervals", bind(time), _literal(interval), factor)


def _multiple(node: exp.Expr) -> tuple[exp.Interval, exp.Expr] | None:
    """The interval and the number, if a node is a product of them; else None."""
    inner = node.unnest()
    sides = (inner.this.unnest(), inner.expression.unnest()) if isinstance(inner, exp.Mul) else ()
    for side, other in (sides, sides[::-1]) if sides else ():
        if isinstance(side, exp.Interval) and not isinstance(other, exp.Interval):
            return side, other
    return None


def _length_comparison(node: exp.Expr, bind: Bind) -> Expression | None:
    """The comparison of the time between two timestamps with an interval; None for every other node."""
    sides = node.this.unnest(), node.expression.unnest()
    # decided before anything is bound: binding the operands twice at each level would take exponential time
    if sorted(isinstance(side, exp.Interval) for side in sides) != [False, True]:
        return None
    if not all(isinstance(side, exp.Interval) or _may_be_difference(side) for side in sides):
        return None
    left, right = (_length(side, bind) for side in sides)
    return None if left is None or right is None else call(OPERATORS[type(node)][0], left, right)


def _seconds(node: exp.Expr, bind: Bind) -> Expression | None:
    """The seconds between two timestamps; None if the node is not a difference."""
    inner = node.unnest()
    if not _may_be_difference(inner):
        return None
    end, start = bind(inner.this), bind(inner.expression)
    if (between := _between(end, start)) is not None:
        return call("divide", cast(between, pa.float64()), Literal(1e6, pa.float64()))
    return call("extract", Literal("epoch", pa.string()), call("subtract", end, start))


def _length(node: exp.Expr, bind: Bind) -> Expression | None:
    """The microseconds of an interval, or between two timestamps."""
    if not isinstance(node, exp.Interval):
        return _between(bind(node.this), bind(node.expression))
    interval = parse_interval(node)
    if interval.months:
        raise error_at(node, "months have no fixed length", hint="compare with days: INTERVAL '30 days'")
    return Literal(interval.days * _DAY + interval.microseconds, pa.int64())


def _may_be_difference(node: exp.Expr) -> bool:
    """Whether a node is written as a difference of two values that may be timestamps."""
    if not isinstance(node, exp.Sub) or isinstance(node.expression.unnest(), exp.Interval):
        return False
    return _multiple(node.expression) is None


def _between(end: Expression, start: Expression) -> Expression | None:
    """The microseconds from one timestamp to another; None for values of other types."""
    times = [pa.types.is_timestamp(side.type) for side in (end, start)]
    moments = [is_time or pa.types.is_date32(side.type) for side, is_time in zip((end, start), times, strict=True)]
    return call("date_diff", Literal("microsecond", pa.string()), start, end) if any(times) and all(moments) else None


def _literal(interval: exp.Interval) -> Literal:
    value: Interval = parse_interval(interval)
    return Literal(value, pa.month_day_nano_interval())


def _in_zone(node: exp.AtTimeZone, bind: Bind) -> Expression:
    inner, zones = node.this.unnest(), [node.args["zone"]]
    if isinstance(inner, exp.AtTimeZone):
        inner, zones = inner.this, [inner.args["zone"], *zones]
    if len(zones) < 2 or not all(isinstance(zone, exp.Literal) and zone.is_string for zone in zones):
        hint = "write t AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin': its zone, then the zone to show it in"
        raise error_at(
            node, "AT TIME ZONE needs two time zones, because timestamps have no zone of their own", hint=hint
        )
    try:
        return call("in_zone", bind(inner), *(Literal(zone.name, pa.string()) for zone in zones))
    except UserError as error:
        raise error_at(node, error.message, hint=error.hint) from error
