"""Reads lengths of windows, in instants (milliseconds if the length has a unit) or in rows."""

from __future__ import annotations

from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.scalars.now_bounds import milliseconds_of
from dsms.sql.parser.interval import parse_interval, unit_name
from dsms.sql.parser.nodes import Span

_MILLISECONDS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


def instants_of(node: exp.Expr) -> int:
    """The number of instants of a span or interval; a bare number counts instants. Raises SqlError.

    >>> five = exp.Literal.number(5)
    >>> instants_of(Span(this=five, unit=exp.var("minutes"))), instants_of(Span(this=five))
    (300000, 5)
    """
    if isinstance(node, exp.Interval):
        return milliseconds_of(parse_interval(node), node)
    unit = node.args.get("unit")
    if unit is None:
        return _whole(node)
    name = unit_name(unit.name)
    if name not in _MILLISECONDS:
        hint = f"have: {', '.join(_MILLISECONDS)}"
        raise error_at(node, f'"{unit.name}" is not a unit of fixed length', hint=hint)
    return _product(node, _MILLISECONDS[name])


def positive(node: exp.Expr, what: str) -> int:
    """The number of instants. Raises SqlError if it is not positive."""
    length = instants_of(node)
    if length < 1:
        raise error_at(node, f"{what} must be positive")
    return length


def rows_of(node: exp.Expr, what: str) -> int:
    """The number of rows. Raises SqlError if it is not positive."""
    if not isinstance(node, Span) or node.args.get("unit") is not None:
        raise error_at(node, f"{what} takes a number of rows without a unit")
    count = _whole(node)
    if count < 1:
        raise error_at(node, f"{what} must be positive")
    return count


def is_bare(node: exp.Expr) -> bool:
    """Whether a span is a number without a unit."""
    return isinstance(node, Span) and node.args.get("unit") is None


def _whole(node: exp.Expr) -> int:
    text = node.this.name
    if not text.isdecimal():
        raise error_at(node, f'"{text}" is not a whole number')
    return int(text)


def _product(node: exp.Expr, factor: int) -> int:
    """`1.5 SECONDS` is 1500."""
    length = float(node.this.name) * factor
    if length != int(length):
        raise error_at(node, "the length is not a whole number of milliseconds")
    return int(length)
