"""Bounds: columns of instants from which on their rows are never asked for again."""

from __future__ import annotations

import polars as pl

_A_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_A_DAY = 86_400_000


def expired(bounds: pl.Series, frontier: int) -> pl.Series:
    """Whether bounds are at or below the frontier; NULL never is. Times count as their milliseconds, rounded up.

    >>> expired(pl.Series([3, 5, None]), 4).to_list()
    [True, False, False]
    """
    return (bound_instants(bounds) <= frontier).fill_null(False)


def bound_instants(bounds: pl.Series) -> pl.Series:
    """The instants of integers, dates and timestamps.

    >>> from datetime import datetime
    >>> bound_instants(pl.Series([datetime(1970, 1, 1, 0, 0, 1, 1)])).to_list()
    [1001]
    """
    if isinstance(bounds.dtype, pl.Datetime):
        return -((-bounds.to_physical()) // _A_MILLISECOND[bounds.dtype.time_unit])
    return bounds.to_physical().cast(pl.Int64) * _A_DAY if bounds.dtype == pl.Date else bounds
