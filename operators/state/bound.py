"""Bounds: columns with an instant. Once the frontier reaches it, the row is never looked up again."""

from __future__ import annotations

import polars as pl

_UNITS_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_MILLISECONDS_PER_DAY = 86_400_000


def expired(bounds: pl.Series, frontier: int) -> pl.Series:
    """Whether each bound is at or below the frontier; FALSE for NULL. Times are converted to ms, rounded up.

    >>> expired(pl.Series([3, 5, None]), 4).to_list()
    [True, False, False]
    """
    return (bound_instants(bounds) <= frontier).fill_null(False)


def bound_instants(bounds: pl.Series) -> pl.Series:
    """Returns bounds that are integers, dates or timestamps as instants; times in ms, rounded up.

    >>> from datetime import datetime
    >>> bound_instants(pl.Series([datetime(1970, 1, 1, 0, 0, 1, 1)])).to_list()
    [1001]
    """
    if isinstance(bounds.dtype, pl.Datetime):
        return -((-bounds.to_physical()) // _UNITS_PER_MILLISECOND[bounds.dtype.time_unit])
    return bounds.to_physical().cast(pl.Int64) * _MILLISECONDS_PER_DAY if bounds.dtype == pl.Date else bounds
