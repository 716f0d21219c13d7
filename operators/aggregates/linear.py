"""Aggregates that are a function of running sums: counts, sums, averages, boolean and/or, and bitwise xor."""

from __future__ import annotations

from functools import partial, reduce

import polars as pl
import pyarrow as pa

from operators.aggregates.function import AggregateFunction, Columns, Linear, RunningSum, Use
from operators.aggregates.rules import (
    always,
    booleans,
    counted_about,
    counted_booleans,
    integers,
    numbers_to_double,
    summed,
)
from operators.expressions.arrow_types import decimal, digits, floating
from operators.expressions.quotient import quotient
from operators.kernels.unscaled_decimals import as_decimals

INT64, INT128, FLOAT64 = pl.Int64(), pl.Int128(), pl.Float64()
#: The digits of a decimal type up to which no sum of fewer than 10^10 rows can exceed 128 bits.
_SAFE_DIGITS = 28
_HIGH = 10**19


def rows_with(columns: tuple[str, ...], name: str = "") -> RunningSum:
    """Counts the rows without a NULL in any of the columns."""
    present = reduce(
        lambda left, right: left & right, [pl.col(column).is_not_null() for column in columns], pl.lit(value=True)
    )
    return RunningSum(name or f"count({','.join(columns)})", "exact", INT64, present.cast(pl.Int64))


def count_where(condition: pl.Expr, name: str) -> RunningSum:
    """Counts the rows for which a condition is TRUE."""
    return RunningSum(name, "exact", INT64, condition.fill_null(False).cast(pl.Int64))


def scale(type_: pa.DataType) -> int:
    """The number of digits after the decimal point; 0 for types other than decimals."""
    return digits(type_)[1] if decimal(type_) else 0


def unscaled(column: str, type_: pa.DataType) -> pl.Expr:
    """An integer or the unscaled value of a decimal, as Int128; 0 for NULL."""
    value = pl.col(column).to_physical() if decimal(type_) else pl.col(column)
    return value.cast(pl.Int128).fill_null(0)


def finite(column: str) -> pl.Expr:
    """A number as Float64; 0 for NULL, NaN and the infinities."""
    value = pl.col(column).cast(pl.Float64)
    return pl.when(value.is_finite()).then(value).otherwise(0.0)


def _sum_parts(use: Use) -> tuple[RunningSum, ...]:
    (column,), (type_,) = use.columns, use.types
    count = rows_with(use.columns)
    if floating(type_):
        value = pl.col(column)
        return (
            count,
            RunningSum(f"sum({column})", "float", FLOAT64, finite(column), count.name),
            count_where(value.is_nan(), f"nan({column})"),
            count_where(value.is_infinite() & (value > 0), f"inf({column})"),
            count_where(value.is_infinite() & (value < 0), f"-inf({column})"),
        )
    whole = RunningSum(f"sum({column})", "exact", INT128, unscaled(column, type_))
    if not decimal(type_) or digits(type_)[0] <= _SAFE_DIGITS:
        return count, whole
    return count, whole, RunningSum(f"high({column})", "exact", INT128, unscaled(column, type_) // _HIGH)


def _float_sum(use: Use, part: Columns) -> pl.Expr:
    column = use.columns[0]
    nan, above, below = (part(f"{name}({column})") > 0 for name in ("nan", "inf", "-inf"))
    return (
        pl.when(nan | (above & below))
        .then(float("nan"))
        .when(above)
        .then(float("inf"))
        .when(below)
        .then(float("-inf"))
        .otherwise(part(f"sum({column})"))
    )


def _sum(use: Use, part: Columns) -> pl.Expr:
    column, type_ = use.columns[0], use.types[0]
    total = _float_sum(use, part) if floating(type_) else part(f"sum({column})")
    if decimal(type_):
        total = as_decimal(total, scale(type_))
    elif not floating(type_):
        total = total.cast(pl.Int64, strict=False)
    return pl.when(part(f"count({column})") > 0).then(total)


def as_decimal(unscaled_: pl.Expr, scale_: int) -> pl.Expr:
    """DECIMAL(38, scale) from its unscaled value; NULL beyond 38 digits."""
    whole = unscaled_.cast(pl.Decimal(38, 0), strict=False)
    return whole.map_batches(partial(as_decimals, scale=scale_), return_dtype=pl.Decimal(38, scale_))


def _too_large(use: Use, part: Columns) -> pl.Expr:
    """Whether an exact sum is outside the range of its type. If the sum itself may have wrapped around, the sum of the
    `high` digits decides."""
    column, type_ = use.columns[0], use.types[0]
    if floating(type_):
        return pl.lit(value=False)
    total = part(f"sum({column})")
    if not decimal(type_):
        return (total > 2**63 - 1) | (total < -(2**63))
    limit = pl.lit(10**38 - 1, pl.Int128)
    outside = (total > limit) | (total < -limit)
    return outside if digits(type_)[0] <= _SAFE_DIGITS else outside | _wrapped(part(f"high({column})"))


def _wrapped(high: pl.Expr) -> pl.Expr:
    return (high > _HIGH + _HIGH // 2) | (high < -_HIGH - _HIGH // 2)


def _average(use: Use, part: Columns) -> pl.Expr:
    column, type_ = use.columns[0], use.types[0]
    total = _float_sum(use, part) if floating(type_) else quotient(_total(use, part), 10.0 ** scale(type_))
    count = part(f"count({column})")
    return pl.when(count > 0).then(quotient(total, count))


def _total(use: Use, part: Columns) -> pl.Expr:
    """The exact sum of integers or unscaled decimals; as a float where it may have wrapped around."""
    column, type_ = use.columns[0], use.types[0]
    total = part(f"sum({column})")
    if not decimal(type_) or digits(type_)[0] <= _SAFE_DIGITS:
        return total
    high = part(f"high({column})")
    low = total - high * pl.lit(_HIGH, pl.Int128)  # the remainder is small, however often the two wrapped around
    both = high.cast(pl.Float64) * float(_HIGH) + low.cast(pl.Float64)
    return pl.when(_wrapped(high)).then(both).otherwise(total.cast(pl.Float64))


def _truths(use: Use) -> tuple[RunningSum, ...]:
    (column,) = use.columns
    return count_where(pl.col(column), f"true({column})"), count_where(~pl.col(column), f"false({column})")


def _all(use: Use, part: Columns) -> pl.Expr:
    true, false = part(f"true({use.columns[0]})"), part(f"false({use.columns[0]})")
    return pl.when(true + false > 0).then(false == 0)


def _any(use: Use, part: Columns) -> pl.Expr:
    true, false = part(f"true({use.columns[0]})"), part(f"false({use.columns[0]})")
    return pl.when(true + false > 0).then(true > 0)


def _xor_parts(use: Use) -> tuple[RunningSum, ...]:
    (column,) = use.columns
    value = pl.col(column).cast(pl.Int64).fill_null(0)
    return rows_with(use.columns), RunningSum(f"xor({column})", "xor", INT64, value)


def _xor(use: Use, part: Columns) -> pl.Expr:
    column = use.columns[0]
    return pl.when(part(f"count({column})") > 0).then(part(f"xor({column})"))


def _count(use: Use, part: Columns) -> pl.Expr:
    return part(f"count({','.join(use.columns)})")


COUNT = Linear(lambda use: (rows_with(use.columns),), _count)
LINEAR: dict[str, AggregateFunction] = {
    "count": AggregateFunction(
        "count",
        "The number of rows; with arguments, the number of rows in which no argument is NULL.",
        (0, 64),
        always(pa.int64()),
        COUNT,
        nullable=False,
    ),
    "approx_count_distinct": AggregateFunction(
        "approx_count_distinct",
        "The number of different values; a second argument is a relative error, kept to in 95 of 100 cases.",
        (1, 1),
        counted_about,
        COUNT,
        nullable=False,
        repeats="never count",
    ),
    "count_if": AggregateFunction(
        "count_if",
        "The number of rows for which the condition is TRUE.",
        (1, 1),
        counted_booleans,
        Linear(_truths, lambda use, part: part(f"true({use.columns[0]})")),
        nullable=False,
    ),
    "sum": AggregateFunction(
        "sum",
        "The sum: exact for integers (outside BIGINT a fault) and decimals; floats are added in the order of time.",
        (1, 1),
        summed,
        Linear(_sum_parts, _sum, _too_large, "sum out of range"),
    ),
    "avg": AggregateFunction("avg", "The arithmetic mean.", (1, 1), numbers_to_double, Linear(_sum_parts, _average)),
    "bool_and": AggregateFunction(
        "bool_and", "Whether all values are TRUE; NULL is ignored.", (1, 1), booleans, Linear(_truths, _all)
    ),
    "bool_or": AggregateFunction(
        "bool_or", "Whether any value is TRUE; NULL is ignored.", (1, 1), booleans, Linear(_truths, _any)
    ),
    "bit_xor": AggregateFunction("bit_xor", "The bitwise exclusive or.", (1, 1), integers, Linear(_xor_parts, _xor)),
}
