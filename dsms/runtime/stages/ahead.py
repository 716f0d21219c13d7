"""AHEAD: how far the instant of a record may be ahead of the record's own timestamp.

A record with an instant far in the future would make all later records of its partition late. Whether it is refused
depends on the record alone, and so not on batches or replays. The timestamp comes from the broker's or the producer's
clock; a timestamp before the year 2000 cannot come from a clock, so it is ignored.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from operators.core.delta import FROM

#: The column of the records' own timestamps, in milliseconds.
ARRIVED = "__arrived"
#: The beginnings of the years 2000 and 10000, in milliseconds since 1970.
_YEAR_2000, _YEAR_10000 = 946_684_800_000, 253_402_300_800_000


def surely_near(instants: pl.Series, arrived: np.ndarray, ahead_ms: int) -> bool:
    """A quick test by the extremes: True if no instant is too far ahead; False if that has to be tested row by row."""
    if not len(instants):
        return True
    least = int(arrived.min())
    latest = instants.max()
    return isinstance(latest, int) and least >= _YEAR_2000 and latest <= least + ahead_ms


def ahead_fault(ahead_ms: int, *, whole: bool) -> pl.Expr:
    """The fault of a row whose instant is too far ahead. Instants of a TIMESTAMP are milliseconds. A `whole` number may
    also be in seconds, which are never ahead, or in micro- or nanoseconds. It is taken as microseconds if it would be
    beyond the year 9999 in milliseconds, and as nanoseconds if it would be beyond it in microseconds.

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
    """Whether an instant, in any of these units, is ahead of the time `now_ms` by more than `ahead_ms`.

    >>> far_in_the_future(253_402_300_799_999, 1_795_000_000_000, 86_400_000), far_in_the_future(7, 9**13, 1)
    (True, False)
    """
    row = pl.DataFrame({FROM: [instant], ARRIVED: [now_ms]}, schema={FROM: pl.Int64, ARRIVED: pl.Int64})
    return row.select(ahead_fault(ahead_ms, whole=True)).to_series().null_count() == 0
