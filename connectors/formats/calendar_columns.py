"""Converts whole columns of ISO 8601 text in the usual form (`_PLAIN`). `calendar_text` converts the other forms, one
value at a time.
"""

from collections.abc import Sequence

import polars as pl

from operators.core.calendar_range import FIRST_DAY, FIRST_US

_PLAIN = {
    pl.Date: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    pl.Datetime: r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6})?Z?$",
}


def microsecond_column(values: Sequence[object]) -> list[object] | None:
    """Microseconds since 1970 of timestamps in UTC; None if any value is not a timestamp in the usual form.

    >>> microsecond_column(["1970-01-01T00:00:01.5Z", None])
    [1500000, None]
    """
    texts = _plain(values, _PLAIN[pl.Datetime])
    if texts is None:
        return None
    read = texts.str.strip_suffix("Z").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)
    return _stored(texts, read, FIRST_US)


def day_column(values: Sequence[object]) -> list[object] | None:
    """Days since 1970 of dates; None if any value is not a date in the usual form.

    >>> day_column(["1970-01-03"]), day_column([5])
    ([2], None)
    """
    texts = _plain(values, _PLAIN[pl.Date])
    return None if texts is None else _stored(texts, texts.str.to_date("%Y-%m-%d", strict=False), FIRST_DAY)


def _plain(values: Sequence[object], pattern: str) -> pl.Series | None:
    """The values as text; None if any value is not text, or does not match the pattern."""
    if not all(value is None or type(value) is str for value in values):
        return None
    texts = pl.Series(values, dtype=pl.String)
    return texts if texts.str.contains(pattern).all() else None


def _stored(texts: pl.Series, read: pl.Series, least: int) -> list[object] | None:
    """The dates or timestamps `read` as integers; None if a text is not valid, or is before `least` (in the year 0)."""
    stored = read.to_physical()
    fits = read.null_count() == texts.null_count() and (stored >= least).all()
    return stored.to_list() if fits else None
