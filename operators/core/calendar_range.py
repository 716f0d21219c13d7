"""The range of dates and timestamps: the years 1 to 9999, as in the SQL standard. Their integers could hold more.

All code that creates such values checks the range (decoders, casts, arithmetic, windows, tables), so the system never
computes with, shows or writes a value outside it. RFC 3339 and Python's datetime, which clients and functions in Python
use, have the same range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

DAY_US = 86_400_000_000
#: 0001-01-01 and 9999-12-31, in days since 1970.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
#: The first and the last microsecond of these years.
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1
#: The name of the range in messages.
YEARS = "the years 1 to 9999"


def days_in_range(days: pl.Expr) -> pl.Expr:
    """Whether integers, as days since 1970, are dates in the range.

    >>> import polars as pl
    >>> pl.select(days_in_range(pl.lit(pl.Series([0, 3_000_000])))).to_series().to_list()
    [True, False]
    """
    return days.is_between(FIRST_DAY, LAST_DAY)


def microseconds_in_range(microseconds: pl.Expr) -> pl.Expr:
    """Whether integers, as microseconds since 1970, are timestamps in the range.

    >>> import polars as pl
    >>> pl.select(microseconds_in_range(pl.lit(pl.Series([0, 10**18])))).to_series().to_list()
    [True, False]
    """
    return microseconds.is_between(FIRST_US, LAST_US)


def times_in_range(stored: pl.Series, *, days: bool) -> bool:
    """Whether all values of a column, days or microseconds since 1970, are in the range.

    >>> import polars as pl
    >>> times_in_range(pl.Series([0, None]), days=True), times_in_range(pl.Series([10**18]), days=False)
    (True, False)
    """
    return bool(stored.is_between(*((FIRST_DAY, LAST_DAY) if days else (FIRST_US, LAST_US))).all())
