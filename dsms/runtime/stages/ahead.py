"""AHEAD: how far the instant of a record may be ahead of the record's own timestamp.

A record far in the future would make all later ones of its partition late. Whether it is refused depends on the record
alone, so batches and replays do not matter. The timestamp is that of the broker or the producer's clock; one before the
year 2000 is no time of a clock, and bounds nothing.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from operators.core.delta import FROM

#: The column of the records' own timestamps, in milliseconds.
ARRIVED = "__arrived"
#: Milliseconds up to the years 2000 and 10000.
_YEAR_2000, _YEAR_10000 = 946_684_800_000, 253_402_300_800_000


def surely_near(instants: pl.Series, arrived: np.ndarray, ahead_ms: int) -> bool:
    """A quick test by the extremes; False says nothing."""
    if not len(instants):
        return True
    least = int(arrived.min())
    latest = instants.max()
    return isinstance(latest, int) and least >= _YEAR_2000 and latest <= least + ahead_ms


def ahead_fault(ahead_ms: int, *, whole: bool) -> pl.Expr:
    """The fault of a row whose instant is too far ahead. Instants of a TIMESTAMP are milliseconds. A `whole` number may
    also be in seconds, which are never ahead, or in micro- or nanoseconds: it is one of these where it would be beyond
    the year 9999 in milliseconds, or in microseconds.

    >>> rows = pl.DataFrame({FROM: [5, 1_800_000_000_000, 1_800_000_000_000_000], ARRIVED: [1_795_000_000_000] * 3})
    >>> [each is None for each in rows.select(ahead_fault(86_400_000, whole=True)).to_series()]
    [True, False, False]
    >>> [each is None for each in rows.select(ahead_fault(10_000_000_000, whole=True)).to_series()]
    [True, True, True]
    """
    instant, arrived = pl.col(FROM), pl.col(ARRIVED)
    time = instant
    if whole:
        nanos, micros = instant >= _YEAR_10000 * 1_000, instant >= _YEAR_10000
        time = pl.when(nanos).then(instant // 1_000_000).when(micros).then(instant // 1_000).otherwise(instant)
    trusted = arrived.is_between(_YEAR_2000, _YEAR_10000, closed="left")
    far = trusted & (time - arrived > min(ahead_ms, _YEAR_10000))
    text = (
        "instant {} is ahead of the record's own timestamp, {} ms, by more than AHEAD allows, {} ms: it would make all "
        "later records late"
    )
    return pl.when(far).then(pl.format(text, instant, arrived, pl.lit(ahead_ms)))


def far_in_the_future(instant: int, now_ms: int, ahead_ms: int) -> bool:
    """Whether an instant, in any of these units, is ahead of a clock.

    >>> far_in_the_future(253_402_300_799_999, 1_795_000_000_000, 86_400_000), far_in_the_future(7, 9**13, 1)
    (True, False)
    """
    row = pl.DataFrame({FROM: [instant], ARRIVED: [now_ms]}, schema={FROM: pl.Int64, ARRIVED: pl.Int64})
    return row.select(ahead_fault(ahead_ms, whole=True)).to_series().null_count() == 0
