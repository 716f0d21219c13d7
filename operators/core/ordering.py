"""Ordered arrival: in a partition's log, no value of a column is more than k below the greatest earlier value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

_UNITS_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_MILLISECONDS_PER_DAY = 86_400_000
_LEAST = np.iinfo(np.int64).min


class Ordering(NamedTuple):
    """The statistics of a column in a partition's log so far: the greatest value `high` (None: no value yet), the
    `worst` distance of a value below the greatest one before it, and the number of `violations`, values that were more
    than k below."""

    high: int | None = None
    worst: int = 0
    violations: int = 0

    def admit(self, values: pl.Series, k: int | None) -> tuple[np.ndarray, pl.Series, Ordering]:
        """Returns a boolean mask of the values that are more than k below the greatest one before them, the least value
        that was allowed at each position (NULL before the first value), and the ordering after all of them.

        NULL is not a value; if `k` is None every value is allowed. All three results are functions of the partition's
        log and do not depend on how it is cut into batches.

        >>> low, least, after = Ordering().admit(pl.Series([5, 9, 6, None, 7]), 2)
        >>> low.tolist(), least.to_list(), after
        ([False, False, True, False, False], [None, 3, 7, 7, 7], Ordering(high=9, worst=3, violations=1))
        """
        known = values.to_physical().cast(pl.Int64)
        highs = pl.concat([pl.Series([self.high], dtype=pl.Int64), known]).fill_null(strategy="forward").cum_max()
        before, high = highs[:-1], highs[-1] if len(highs) else None
        seen = pl.DataFrame({"value": known, "before": before})
        bound = pl.lit(None, pl.Int64) if k is None else _below(pl.col("before"), k)
        least = seen.with_columns(bound.alias("least"))["least"]
        distances = _distances(seen.filter(pl.all_horizontal(pl.all().is_not_null())))
        violates = (known < least).fill_null(False).to_numpy()
        worst = max(self.worst, int(distances.max(initial=0)))
        return violates, least, Ordering(high, worst, self.violations + int(violates.sum()))


def _below(value: pl.Expr, k: int) -> pl.Expr:
    """`value - k` in 64-bit integers, clamped to the least one."""
    return pl.when(value < _LEAST + k).then(pl.lit(_LEAST, pl.Int64)).otherwise(value - k)


def _distances(seen: pl.DataFrame) -> np.ndarray:
    """How far each value is below the greatest one before it, as uint64: it may exceed the range of int64."""
    value, before = (seen[name].to_numpy() for name in ("value", "before"))
    return np.where(before > value, before.astype(np.uint64) - value.astype(np.uint64), np.uint64(0))


def physical_distance(dtype: pl.DataType, k: int) -> int:
    """Converts a declared distance `k` (in ms for times, else in the type's own unit) to the unit of physical values.

    >>> [physical_distance(dtype, k) for dtype, k in ((pl.Datetime("us"), 5), (pl.Date(), 90_000_000), (pl.Int32(), 7))]
    [5000, 1, 7]
    """
    if isinstance(dtype, pl.Datetime):
        return k * _UNITS_PER_MILLISECOND[dtype.time_unit]
    return k // _MILLISECONDS_PER_DAY if dtype == pl.Date else k


def declared_distance(dtype: pl.DataType, distance: int) -> int:
    """Converts a distance between physical values to the unit of declared distances, rounded up.

    >>> declared_distance(pl.Datetime("us"), 4001), declared_distance(pl.Date(), 2), declared_distance(pl.Int32(), 7)
    (5, 172800000, 7)
    """
    if isinstance(dtype, pl.Datetime):
        return -(-distance // _UNITS_PER_MILLISECOND[dtype.time_unit])
    return distance * _MILLISECONDS_PER_DAY if dtype == pl.Date else distance
