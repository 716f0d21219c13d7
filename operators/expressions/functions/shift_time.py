"""Adds days and calendar intervals to dates and timestamps."""

from collections.abc import Sequence

import polars as pl

from operators.expressions.function import Compiled, literal_value, total
from operators.expressions.tree import Call, Interval, Literal

# 0001-01-01 to 9999-12-31, the dates that all formats of results can represent
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def days_after(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    """Returns the date this many days later, null outside the years 1 to 9999."""
    day = date.cast(pl.Int64) + days.clip(-(2**40), 2**40)
    return pl.when(day.is_between(_FIRST_DAY, _LAST_DAY)).then(day).cast(pl.Int32, strict=False).cast(pl.Date)


def interval_after(call: Call, arguments: Sequence[Compiled], sign: int) -> Compiled:
    """Moves a timestamp by a literal interval: months first, clamped to the month's end, then days, then the time."""
    time, interval = (0, 1) if isinstance(call.arguments[1], Literal) else (1, 0)
    amount = literal_value(call.arguments[interval])
    if amount is None:
        return Compiled(pl.lit(None, dtype=pl.Datetime("us")), arguments[time].fault)
    return total(lambda value: _shift(value, amount, sign))(call, [arguments[time]])


def _shift(value: pl.Expr, amount: Interval, sign: int) -> pl.Expr:
    if amount.months:
        value = value.dt.offset_by(f"{sign * amount.months}mo")
    if amount.days or amount.microseconds:
        value = value + pl.duration(days=sign * amount.days, microseconds=sign * amount.microseconds)
    return value
