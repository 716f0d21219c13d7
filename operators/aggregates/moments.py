"""Variance, covariance and correlation from running sums of x, y, x², xy and y².

Over integers and decimals the sums are exact (`products.py`), and the result is accurate to a few units in the last
place. Over floats, n Σx² - (Σx)² loses about log10(mean² / variance) digits to cancellation: if the mean is 10^6
standard deviations, about 4 of 16 digits are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pyarrow as pa

from operators.aggregates.function import AggregateFunction, Columns, Linear, RunningSum, Use
from operators.aggregates.linear import FLOAT64, count_where, finite, rows_with, scale
from operators.aggregates.products import Products, limbs
from operators.aggregates.rules import always, numbers_to_double
from operators.expressions.arrow_types import floating
from operators.expressions.quotient import quotient


def _exact(use: Use) -> bool:
    return not any(floating(type_) for type_ in use.types)


def _name(use: Use, *positions: int) -> str:
    return f"sum of {'*'.join(use.columns[position] for position in positions)} ({','.join(use.columns)})"


def _products(use: Use, first: int, second: int) -> Products:
    numbers = [limbs(column, type_) for column, type_ in zip(use.columns, use.types, strict=True)]
    return Products(numbers[first], numbers[second], _present(use), ",".join(use.columns))


def _present(use: Use) -> pl.Expr:
    return pl.all_horizontal([pl.col(column).is_not_null() for column in use.columns])


def _parts(use: Use) -> tuple[RunningSum, ...]:
    """Sums over the rows without a NULL in x or y."""
    count = rows_with(use.columns)
    positions = range(len(use.columns))
    pairs = [(first, second) for first in positions for second in positions[first:]]
    if _exact(use):
        squares = [_products(use, at, at) for at in positions]
        sums = [part for square in squares for part in square.sums(square.x)]
        products = [part for pair in pairs for part in _products(use, *pair).products()]
        named = {part.name: part for part in (*sums, *products)}
        version = int(any(square.long for square in squares))
        return count, *(replace(part, version=version) for part in named.values())
    present = _present(use)
    kept = [pl.when(present).then(finite(column)).otherwise(0) for column in use.columns]
    floats = {_name(use, at): value for at, value in enumerate(kept)}
    floats |= {_name(use, first, second): kept[first] * kept[second] for first, second in pairs}
    infinite_or_nan = pl.any_horizontal([~pl.col(column).cast(pl.Float64).is_finite() for column in use.columns])
    non_finite = count_where(present & infinite_or_nan, f"not finite({','.join(use.columns)})")
    return count, non_finite, *(RunningSum(name, "float", FLOAT64, value, count.name) for name, value in floats.items())


def _count(use: Use, part: Columns) -> pl.Expr:
    return part(rows_with(use.columns).name)


def _deviations(use: Use, part: Columns, first: int, second: int) -> pl.Expr:
    """Σ (x - mean x)(y - mean y) of two arguments; at least 0 if both are the same argument."""
    if _exact(use):
        total = _products(use, first, second).deviations(_count(use, part), part)
        return quotient(total, 10.0 ** (scale(use.types[first]) + scale(use.types[second])))
    count = _count(use, part)
    total = part(_name(use, first, second)) - quotient(part(_name(use, first)) * part(_name(use, second)), count)
    total = total.clip(lower_bound=0.0) if first == second else total
    return pl.when(_has_non_finite(use, part)).then(float("nan")).otherwise(total)


def _dispersion(ddof: int, finish: Callable[[pl.Expr], pl.Expr]) -> Linear:
    """A variance, a covariance or, with the root as `finish`, a standard deviation."""

    def result(use: Use, part: Columns) -> pl.Expr:
        count = _count(use, part)
        last = len(use.columns) - 1
        return pl.when(count > ddof).then(
            finish(quotient(_deviations(use, part, 0, last), count.cast(pl.Int64) - ddof))
        )

    return Linear(_parts, result)


def _correlation(use: Use, part: Columns) -> pl.Expr:
    both = _deviations(use, part, 0, 1)
    scales = _deviations(use, part, 0, 0).sqrt() * _deviations(use, part, 1, 1).sqrt()
    ratio = pl.when(scales == 0).then(float("nan")).otherwise(quotient(both, scales).clip(-1.0, 1.0))
    return pl.when(_count(use, part) > 0).then(ratio)


def _mean(at: int) -> Linear:
    """The mean of an argument over the pairs."""

    def result(use: Use, part: Columns) -> pl.Expr:
        count = _count(use, part)
        if _exact(use):
            sums = _products(use, at, at)
            return pl.when(count > 0).then(quotient(sums.total(sums.x, part), count * 10.0 ** scale(use.types[at])))
        total = part(_name(use, at))
        mean = pl.when(_has_non_finite(use, part)).then(float("nan")).otherwise(quotient(total, count))
        return pl.when(count > 0).then(mean)

    return Linear(_parts, result)


def _has_non_finite(use: Use, part: Columns) -> pl.Expr:
    """Whether any float among the pairs is not finite."""
    return part(f"not finite({','.join(use.columns)})") > 0


def _sum_of_products(first: int, second: int) -> Linear:
    return Linear(_parts, lambda use, part: pl.when(_count(use, part) > 0).then(_deviations(use, part, first, second)))


def _slope(use: Use, part: Columns) -> pl.Expr:
    """The change of y for a change of x by 1; y is the first argument and x the second."""
    of_x = _deviations(use, part, 1, 1)
    slope = pl.when(of_x == 0).then(float("nan")).otherwise(quotient(_deviations(use, part, 0, 1), of_x))
    return pl.when(_count(use, part) > 0).then(slope)


def _intercept(use: Use, part: Columns) -> pl.Expr:
    line = _mean(0).result(use, part) - _slope(use, part) * _mean(1).result(use, part)
    return pl.when(_deviations(use, part, 1, 1) != 0).then(line)


def _determination(use: Use, part: Columns) -> pl.Expr:
    """R²: 1 where y is constant, NULL where x is constant."""
    of_y, of_x = _deviations(use, part, 0, 0), _deviations(use, part, 1, 1)
    ratio = (quotient(_deviations(use, part, 0, 1), (of_x * of_y).sqrt()) ** 2).clip(0.0, 1.0)
    known = (_count(use, part) > 0) & (of_x != 0)
    return pl.when(known).then(pl.when(of_y == 0).then(1.0).otherwise(ratio))


def _same(value: pl.Expr) -> pl.Expr:
    return value


def _root(value: pl.Expr) -> pl.Expr:
    return value.sqrt()


def _entry(name: str, summary: str, arguments: int, method: Linear) -> AggregateFunction:
    return AggregateFunction(name, summary, (arguments, arguments), numbers_to_double, method, distinct=arguments == 1)


#: The regression functions, over pairs (y, x) without NULL: name -> (summary, method).
_REGRESSION: dict[str, tuple[str, Linear]] = {
    "regr_avgx": ("The mean of x over pairs (y, x) without NULL.", _mean(1)),
    "regr_avgy": ("The mean of y over pairs (y, x) without NULL.", _mean(0)),
    "regr_sxx": ("The sum of squares of x - mean x, over pairs (y, x).", _sum_of_products(1, 1)),
    "regr_syy": ("The sum of squares of y - mean y, over pairs (y, x).", _sum_of_products(0, 0)),
    "regr_sxy": ("The sum of (x - mean x) (y - mean y).", _sum_of_products(0, 1)),
    "regr_slope": (
        "The slope of the least-squares line through pairs (y, x); NaN if x is constant.",
        Linear(_parts, _slope),
    ),
    "regr_intercept": ("The y of the least-squares line at x = 0; NULL if x is constant.", Linear(_parts, _intercept)),
    "regr_r2": (
        "R²: the fraction of the variance of y that the least-squares line explains.",
        Linear(_parts, _determination),
    ),
}
MOMENTS: dict[str, AggregateFunction] = {
    **{name: _entry(name, summary, 2, method) for name, (summary, method) in _REGRESSION.items()},
    "var_pop": _entry("var_pop", "The population variance.", 1, _dispersion(0, _same)),
    "var_samp": _entry("var_samp", "The sample variance; NULL for one value.", 1, _dispersion(1, _same)),
    "stddev_pop": _entry("stddev_pop", "The population standard deviation.", 1, _dispersion(0, _root)),
    "stddev_samp": _entry(
        "stddev_samp", "The sample standard deviation; NULL for one value.", 1, _dispersion(1, _root)
    ),
    "covar_pop": _entry("covar_pop", "The population covariance of pairs without NULL.", 2, _dispersion(0, _same)),
    "covar_samp": _entry("covar_samp", "The sample covariance; NULL for one pair.", 2, _dispersion(1, _same)),
    "corr": _entry("corr", "Pearson's correlation; NaN where one side is constant.", 2, Linear(_parts, _correlation)),
    "regr_count": AggregateFunction(
        "regr_count",
        "The number of pairs without NULL.",
        (2, 2),
        always(pa.int64()),
        Linear(lambda use: (rows_with(use.columns),), _count),
        nullable=False,
        distinct=False,
    ),
}
