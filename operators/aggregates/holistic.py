"""Aggregates that need all rows of a group: percentiles, mode, bitwise and/or, and collecting into an array or text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from operators.aggregates.function import AggregateFunction, Holistic, Use
from operators.aggregates.rules import fraction, integers, interpolated, listed, near, picked, same, strings
from operators.core.delta import WEIGHT
from operators.core.sort_key import SortKey
from operators.expressions.arrow_types import polars_type, temporal
from operators.expressions.value_sizes import ELEMENT, LONGEST, size
from operators.kernels.phases import PHASE
from operators.state.arrivals import ARRIVAL_ORDER

RESULT = "__result"


def _by_value(use: Use) -> tuple[SortKey, ...]:
    column = use.columns[0]
    descending = any(key.column == column and key.descending for key in use.order_by)
    return (SortKey(column, descending),)


def by_arrival(use: Use) -> tuple[SortKey, ...]:
    """The order of ORDER BY, then the order of arrival."""
    return (*use.order_by, *ARRIVAL_ORDER)


def _argument(use: Use) -> tuple[str, ...]:
    return use.columns[:1]


def _whole(use: Use) -> tuple[str, ...]:
    return ()


def _counts(rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The phases, the number of values in each, the number of values before each, and the running number of values."""
    phase = rows[PHASE].to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], phase[1:] != phase[:-1]])[: len(phase)])
    running = np.cumsum(rows[WEIGHT].to_numpy())
    ends = running[np.append(starts[1:], len(phase)).astype(np.int64)[: len(starts)] - 1]
    before = np.concatenate([[0], ends])[: len(ends)]
    return phase[starts], ends - before, before, running


def _continuous(use: Use, rows: pl.DataFrame) -> pl.DataFrame:
    """Interpolates between the values at the positions around fraction * (n - 1), counted from 0."""
    phases, count, before, running = _counts(rows)
    place = fraction(use.parameters) * (count - 1)
    low, high = (
        np.searchsorted(running, before + rounded.astype(np.int64), side="right")
        for rounded in (np.floor(place), np.ceil(place))
    )
    times = temporal(use.types[0])
    column = rows[use.columns[0]].cast(pl.Datetime("us")).to_physical() if times else rows[use.columns[0]]
    values = column.cast(pl.Float64).to_numpy()
    share = place - np.floor(place)
    lower, upper = values[low], values[high]
    with np.errstate(invalid="ignore", over="ignore"):
        between = np.where(np.isfinite(lower) & np.isfinite(upper), lower + (upper - lower) * share, lower + upper)
    result = np.where((low == high) | (lower == upper), lower, between)
    typed = pl.Series(RESULT, result).round().cast(pl.Int64).cast(pl.Datetime("us")) if times else result
    return pl.DataFrame({PHASE: phases, RESULT: typed})


def _discrete(use: Use, rows: pl.DataFrame) -> pl.DataFrame:
    """The value at the position ceil(fraction * n), counted from 1."""
    phases, count, before, running = _counts(rows)
    place = np.maximum(count - np.floor(count - fraction(use.parameters) * count).astype(np.int64), 1) - 1
    chosen = rows[use.columns[0]][np.searchsorted(running, before + place, side="right")]
    return pl.DataFrame({PHASE: phases, RESULT: chosen})


def _mode(use: Use, rows: pl.DataFrame) -> pl.DataFrame:
    column = pl.col(use.columns[0]).alias(RESULT)
    counted = rows.group_by(PHASE, column).agg(pl.col(WEIGHT).sum())
    return counted.sort(PHASE, WEIGHT, RESULT, descending=[False, True, False]).unique(
        PHASE, keep="first", maintain_order=True
    )[[PHASE, RESULT]]


def _repeated(use: Use, rows: pl.DataFrame, collect: Callable[[pl.Expr], pl.Expr], between: int) -> pl.DataFrame:
    weights = rows[WEIGHT].to_numpy()
    if (weights != 1).any():
        rows = rows[np.repeat(np.arange(rows.height), np.minimum(weights, LONGEST))]
    collected = collect(pl.col(use.columns[0])).alias(RESULT)
    return _first_of_phases(use, rows, between).group_by(PHASE, maintain_order=True).agg(collected)


def _first_of_phases(use: Use, rows: pl.DataFrame, between: int) -> pl.DataFrame:
    """The rows of each phase, cut off after the first row with which the result exceeds the greatest size of a value.
    Such a result is a fault, and the rows kept are enough to detect it. `between` is the size of a separator."""
    lengths = rows.select(size(pl.col(use.columns[0]), use.types[0]) + between).to_series()
    if (lengths.sum() or 0) <= LONGEST:
        return rows
    before = (lengths.cum_sum() - lengths).alias("before")
    start = pl.col("before").first().over(PHASE)
    near = pl.DataFrame([rows[PHASE], before]).select(pl.col("before") - start <= LONGEST + between)
    return rows.filter(near.to_series())


def _too_long(use: Use, result: pl.Expr) -> pl.Expr:
    return size(result, use.result) > LONGEST


def _text(use: Use, rows: pl.DataFrame) -> pl.DataFrame:
    separator = str(use.parameters[0]) if use.parameters else ","
    return _repeated(use, rows, lambda value: value.str.join(separator), len(separator.encode()))


def _list(use: Use, rows: pl.DataFrame) -> pl.DataFrame:
    return _repeated(use, rows, lambda value: value, ELEMENT)


def _bits(use: Use, rows: pl.DataFrame, combine: Callable[[pl.Expr], pl.Expr]) -> pl.DataFrame:
    dtype = polars_type(use.types[0])
    return rows.group_by(PHASE).agg(combine(pl.col(use.columns[0])).cast(dtype).alias(RESULT))


_MEDIAN = Holistic(_by_value, _argument, _continuous)
HOLISTIC: dict[str, AggregateFunction] = {
    "median": AggregateFunction(
        "median", "The middle value, or the mean of the two in the middle.", (1, 1), interpolated, _MEDIAN
    ),
    "percentile_cont": AggregateFunction(
        "percentile_cont",
        "The value at a fraction of the way through the sorted values, interpolated.",
        (1, 1),
        interpolated,
        _MEDIAN,
    ),
    "percentile_disc": AggregateFunction(
        "percentile_disc",
        "The first of the sorted values whose position reaches the fraction.",
        (1, 1),
        picked,
        Holistic(_by_value, _argument, _discrete),
    ),
    "approx_percentile": AggregateFunction(
        "approx_percentile",
        "PERCENTILE_DISC within a relative error, the third argument (default: 0.01).",
        (1, 1),
        near,
        Holistic(_by_value, _argument, _discrete),
        distinct=False,
    ),
    "mode": AggregateFunction(
        "mode", "The most frequent value; ties: the least.", (1, 1), same, Holistic(_by_value, _argument, _mode)
    ),
    "bit_and": AggregateFunction(
        "bit_and",
        "The bitwise and.",
        (1, 1),
        integers,
        Holistic(_by_value, _argument, lambda use, rows: _bits(use, rows, lambda value: value.bitwise_and())),
    ),
    "bit_or": AggregateFunction(
        "bit_or",
        "The bitwise or.",
        (1, 1),
        integers,
        Holistic(_by_value, _argument, lambda use, rows: _bits(use, rows, lambda value: value.bitwise_or())),
    ),
    "string_agg": AggregateFunction(
        "string_agg",
        "The texts without NULL, joined by a separator (default: comma), in the order of ORDER BY or else of arrival.",
        (1, 1),
        strings,
        Holistic(by_arrival, _argument, _text, _too_long, f"text longer than {LONGEST} bytes"),
    ),
    "array_agg": AggregateFunction(
        "array_agg",
        "All values, including NULL, as an array in the order of ORDER BY or else of arrival.",
        (1, 1),
        listed,
        Holistic(by_arrival, _whole, _list, _too_long, f"array longer than {LONGEST} bytes"),
    ),
}
