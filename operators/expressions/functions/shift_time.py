"""Adds days and calendar intervals to dates and timestamps."""

from collections.abc import Sequence

import polars as pl

from operators.core.calendar_range import DAY_US, days_in_range, microseconds_in_range
from operators.expressions.function import Compiled, lit_text, literal_value, quoted
from operators.expressions.tree import Call, Interval, Literal

#: Numbers of months and microseconds that exceed the length of the years 1 to 9999.
_MONTHS, _MICROSECONDS = 12 * 10_000, 366 * 10_000 * DAY_US


def days_after(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    """Returns the date this many days later, null outside the years 1 to 9999."""
    day = date.cast(pl.Int64) + days.clip(-(2**40), 2**40)
    return pl.when(days_in_range(day)).then(day).cast(pl.Int32, strict=False).cast(pl.Date)


def in_range(time: pl.Expr) -> pl.Expr:
    """Returns the timestamp, null outside the years 1 to 9999."""
    return pl.when(microseconds_in_range(time.cast(pl.Int64))).then(time)


def date_in_range(date: pl.Expr) -> pl.Expr:
    """Returns the date, null outside the years 1 to 9999."""
    return pl.when(days_in_range(date.cast(pl.Int32))).then(date)


def interval_after(call: Call, arguments: Sequence[Compiled], sign: int) -> Compiled:
    """Moves a timestamp by a literal interval: months first, clamped to the month's end, then days, then the time. A
    result outside the years 1 to 9999 is a fault."""
    time, interval = (0, 1) if isinstance(call.arguments[1], Literal) else (1, 0)
    amount = literal_value(call.arguments[interval])
    if amount is None:
        return Compiled(pl.lit(None, dtype=pl.Datetime("us")), arguments[time].fault)
    value, fault = arguments[time].value, arguments[time].fault
    moved = in_range(_shift(value, amount, sign))
    own = pl.when(moved.is_null() & value.is_not_null()).then(lit_text(f"timestamp out of range in {quoted(call)}"))
    return Compiled(moved, own if fault is None else pl.coalesce(fault, own))


def intervals_after(call: Call, time: pl.Expr, _: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Returns the timestamp `count` intervals later, null outside the years 1 to 9999."""
    amount: Interval = literal_value(call.arguments[1])
    micros = amount.days * DAY_US + amount.microseconds
    count = count.cast(pl.Int64)
    if amount.months:
        months = count.clip(-_MONTHS, _MONTHS) * amount.months
        months = pl.when(months.abs() <= _MONTHS).then(months)
        time = time.dt.offset_by(pl.concat_str(months.cast(pl.String), pl.lit("mo")))
    if micros:
        moved = (count.cast(pl.Int128) * micros).clip(-_MICROSECONDS, _MICROSECONDS)
        time = time + moved.cast(pl.Int64).cast(pl.Duration("us"))
    return in_range(time)


def _shift(value: pl.Expr, amount: Interval, sign: int) -> pl.Expr:
    if amount.months:
        value = value.dt.offset_by(f"{sign * amount.months}mo")
    if micros := sign * (amount.days * DAY_US + amount.microseconds):
        value = value + pl.duration(microseconds=micros)
    return value
