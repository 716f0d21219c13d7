"""Ordered arrival: in the log of a partition, a column falls back behind its greatest value by no more than k."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

_UNITS_A_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_A_DAY = 86_400_000
_LEAST = np.iinfo(np.int64).min


class Ordering(NamedTuple):
    """What a partition's log has shown of a column: its greatest value (None: none was seen), by how much a value was
    below the greatest before it at most, and how many were by too much."""

    high: int | None = None
    worst: int = 0
    violations: int = 0

    def admit(self, values: pl.Series, k: int | None) -> tuple[np.ndarray, pl.Series, Ordering]:
        """Which values are more than k below the greatest before them, the least value that each of them may have
        (None before the first), and what is known after all of them. A NULL is no value; no k allows all.

        The law: all three are functions of the partition's log, whatever the batches.

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
    """`value - k` of 64-bit integers, the least one where there is none so small."""
    return pl.when(value < _LEAST + k).then(pl.lit(_LEAST, pl.Int64)).otherwise(value - k)


def _distances(seen: pl.DataFrame) -> np.ndarray:
    """How far values are below the greatest before them, which may be more than a signed number holds."""
    value, before = (seen[name].to_numpy() for name in ("value", "before"))
    return np.where(before > value, before.astype(np.uint64) - value.astype(np.uint64), np.uint64(0))


def physical(dtype: pl.DataType, k: int) -> int:
    """`k` in the units in which values of a type are held: it is milliseconds for times, else the type's own unit.

    >>> physical(pl.Datetime("us"), 5), physical(pl.Date(), 90_000_000), physical(pl.Int32(), 7)
    (5000, 1, 7)
    """
    if isinstance(dtype, pl.Datetime):
        return k * _UNITS_A_MILLISECOND[dtype.time_unit]
    return k // _A_DAY if dtype == pl.Date else k


def told(dtype: pl.DataType, distance: int) -> int:
    """A distance between held values in the units of k, rounded up.

    >>> told(pl.Datetime("us"), 4001), told(pl.Date(), 2), told(pl.Int32(), 7)
    (5, 172800000, 7)
    """
    if isinstance(dtype, pl.Datetime):
        return -(-distance // _UNITS_A_MILLISECOND[dtype.time_unit])
    return distance * _A_DAY if dtype == pl.Date else distance
