"""Adds days and calendar intervals to dates and timestamps."""

from collections.abc import Sequence

import polars as pl

from operators.expressions.function import Compiled, literal_value, total
from operators.expressions.tree import Call, Interval, Literal

# 0001-01-01 to 9999-12-31, the dates that all formats of results can represent
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY = 86_400_000_000
#: More than there are in these years.
_MONTHS, _MICROSECONDS = 12 * 10_000, 366 * 10_000 * _DAY


def days_after(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    """Returns the date this many days later, null outside the years 1 to 9999."""
    day = date.cast(pl.Int64) + days.clip(-(2**40), 2**40)
    return pl.when(day.is_between(_FIRST_DAY, _LAST_DAY)).then(day).cast(pl.Int32, strict=False).cast(pl.Date)


def in_range(time: pl.Expr) -> pl.Expr:
    """Returns the timestamp, null outside the years 1 to 9999."""
    day = time.cast(pl.Int64) // _DAY
    return pl.when(day.is_between(_FIRST_DAY, _LAST_DAY)).then(time)


def interval_after(call: Call, arguments: Sequence[Compiled], sign: int) -> Compiled:
    """Moves a timestamp by a literal interval: months first, clamped to the month's end, then days, then the time."""
    time, interval = (0, 1) if isinstance(call.arguments[1], Literal) else (1, 0)
    amount = literal_value(call.arguments[interval])
    if amount is None:
        return Compiled(pl.lit(None, dtype=pl.Datetime("us")), arguments[time].fault)
    return total(lambda value: _shift(value, amount, sign))(call, [arguments[time]])


def intervals_after(call: Call, time: pl.Expr, _: pl.Expr, count: pl.Expr) -> pl.Expr:
    """The timestamp so many intervals later, null outside the years 1 to 9999."""
    amount: Interval = literal_value(call.arguments[1])
    micros = amount.days * _DAY + amount.microseconds
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
    if amount.days or amount.microseconds:
        value = value + pl.duration(days=sign * amount.days, microseconds=sign * amount.microseconds)
    return value
