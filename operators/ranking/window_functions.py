"""Window functions: the value of each row from the rows of its frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.expressions.arrow_types import polars_type
from operators.ranking.window_call import WindowCall
from operators.ranking.window_frames import Segments


@dataclass(frozen=True)
class Frames:
    """Sorted rows with their frames: frame i holds the rows `lows[i] ≤ row < highs[i]`; `arguments` are by row."""

    call: WindowCall
    rows: Segments
    lows: np.ndarray
    highs: np.ndarray
    arguments: tuple[pl.Series, ...]


def window_values(frames: Frames) -> tuple[pl.Series, np.ndarray]:
    """The function's value for each row in the type of the call, and a mask of the values that the type cannot hold.

    >>> import pyarrow as pa
    >>> rows = Segments.of(np.zeros(3, np.int64), np.ones(3, np.bool_))
    >>> call = WindowCall("s", "sum", ("a",), pa.int8())
    >>> lows, highs = np.zeros(3, np.int64), np.array([1, 2, 3])
    >>> values, outside = window_values(Frames(call, rows, lows, highs, (pl.Series([1, 99, 50]),)))
    >>> values.to_list(), outside.tolist()
    ([1, 100, None], [False, False, True])
    """
    type_ = polars_type(frames.call.type)
    if not len(frames.lows):
        return pl.Series(frames.call.name, [], type_), np.zeros(0, np.bool_)
    computed = FUNCTIONS[frames.call.function](frames)
    values = computed.cast(type_, strict=False).alias(frames.call.name)
    outside: np.ndarray = (values.is_null() & computed.is_not_null()).to_numpy()
    return values, outside


def _row_number(frames: Frames) -> pl.Series:
    return pl.Series(frames.rows.places + 1)


def _rank(frames: Frames) -> pl.Series:
    return pl.Series(frames.rows.peer_starts - frames.rows.starts + 1)


def _dense_rank(frames: Frames) -> pl.Series:
    leads = np.cumsum(frames.rows.peer_starts == np.arange(len(frames.lows)))
    return pl.Series(leads - leads[frames.rows.starts] + 1)


def _percent_rank(frames: Frames) -> pl.Series:
    return pl.Series((frames.rows.peer_starts - frames.rows.starts) / np.maximum(frames.rows.sizes - 1, 1))


def _cume_dist(frames: Frames) -> pl.Series:
    return pl.Series((frames.rows.peer_ends - frames.rows.starts) / frames.rows.sizes)


def _ntile(frames: Frames) -> pl.Series:
    """The number of the bucket; the first `size mod buckets` buckets have one row more."""
    buckets = int(str(frames.call.parameters[0]))
    small, more = np.divmod(frames.rows.sizes, buckets)
    place = frames.rows.places
    large = more * (small + 1)
    behind = more + (place - large) // np.maximum(small, 1)
    return pl.Series(np.where(place < large, place // (small + 1), behind) + 1)


def _shifted(frames: Frames, direction: int) -> pl.Series:
    offset = direction * int(str((*frames.call.parameters, 1)[0]))
    place = np.arange(len(frames.lows)) + offset
    inside = (place >= frames.rows.starts) & (place < frames.rows.ends)
    shifted = _values_at(frames.arguments[0], place, inside)
    if len(frames.call.parameters) < 2 or frames.call.parameters[1] is None:
        return shifted
    default = pl.lit(frames.call.parameters[1]).cast(shifted.dtype)
    return pl.select(pl.when(pl.Series(inside)).then(shifted).otherwise(default)).to_series()


def _lag(frames: Frames) -> pl.Series:
    return _shifted(frames, -1)


def _lead(frames: Frames) -> pl.Series:
    return _shifted(frames, 1)


def _first_value(frames: Frames) -> pl.Series:
    return _values_at(frames.arguments[0], frames.lows, frames.lows < frames.highs)


def _last_value(frames: Frames) -> pl.Series:
    return _values_at(frames.arguments[0], frames.highs - 1, frames.lows < frames.highs)


def _nth_value(frames: Frames) -> pl.Series:
    place = frames.lows + int(str(frames.call.parameters[0])) - 1
    return _values_at(frames.arguments[0], place, (place < frames.highs) & (place >= frames.lows))


def _values_at(values: pl.Series, places: np.ndarray, inside: np.ndarray) -> pl.Series:
    gathered = values.gather(np.where(inside, places, 0))
    return pl.select(pl.when(pl.Series(inside)).then(gathered)).to_series()


def _counts(frames: Frames) -> np.ndarray:
    running = np.arange(len(frames.lows) + 1)
    if frames.arguments:
        running = np.concatenate([[0], np.cumsum(frames.arguments[0].is_not_null().to_numpy())])
    counted: np.ndarray = running[frames.highs] - running[frames.lows]
    return counted


def _count(frames: Frames) -> pl.Series:
    return pl.Series(_counts(frames))


def _sum(frames: Frames) -> pl.Series:
    """Differences of exact running sums. Floats are added up in the order of rows, so that the sum does not depend on
    how time is cut into steps."""
    values = frames.arguments[0]
    total = _float_sums(frames) if values.dtype.is_float() else _exact_sums(frames)
    return pl.select(pl.when(pl.Series(_counts(frames)) > 0).then(total)).to_series()


def _exact_sums(frames: Frames) -> pl.Series:
    values = frames.arguments[0]
    wide = pl.Decimal(38, values.dtype.scale) if isinstance(values.dtype, pl.Decimal) else pl.Int128()
    zero = pl.Series([0], dtype=pl.Int64).cast(wide)
    running = pl.concat([zero, values.cast(wide).fill_null(zero[0]).cum_sum()], rechunk=True)
    return running.gather(frames.highs) - running.gather(frames.lows)


def _float_sums(frames: Frames) -> pl.Series:
    values = frames.arguments[0].cast(pl.Float64).fill_null(0.0)
    if (frames.lows == frames.rows.starts).all():
        partition = pl.Series("partition", frames.rows.starts)
        running = pl.DataFrame([values.alias("value"), partition])
        sums = running.select(pl.col("value").cum_sum().over("partition")).to_series()
        return sums.gather(np.maximum(frames.highs - 1, 0))
    lengths = frames.highs - frames.lows
    frame = np.repeat(np.arange(len(lengths)), lengths)
    member = np.arange(len(frame)) + np.repeat(frames.lows - (np.cumsum(lengths) - lengths), lengths)
    return pl.Series(np.bincount(frame, weights=values.to_numpy()[member], minlength=len(lengths)))


def _avg(frames: Frames) -> pl.Series:
    return _sum(frames).cast(pl.Float64) / pl.Series(_counts(frames))


def _least(frames: Frames) -> pl.Series:
    return _extreme(frames, descending=False)


def _greatest(frames: Frames) -> pl.Series:
    return _extreme(frames, descending=True)


def _extreme(frames: Frames, *, descending: bool) -> pl.Series:
    """The value in the frame with the least place in the order of all values. Two blocks of the same power of two cover
    a frame (a sparse table)."""
    values = frames.arguments[0].alias("value")
    ordered = (
        values.to_frame().with_row_index("row").sort("value", "row", descending=[descending, False], nulls_last=True)
    )
    places = np.empty(len(values), np.int64)
    places[ordered["row"].to_numpy()] = np.arange(len(values))
    known = len(values) - values.null_count()
    lengths = frames.highs - frames.lows
    best = np.full(len(values), len(values), np.int64)
    levels = np.frexp(np.maximum(lengths, 1))[1] - 1
    table = places
    for level in range(int(levels.max(initial=0)) + 1):
        if level:
            half = 1 << (level - 1)
            table = np.minimum(table[:-half], table[half:])
        at = np.flatnonzero((levels == level) & (lengths > 0))
        best[at] = np.minimum(table[frames.lows[at]], table[frames.highs[at] - (1 << level)])
    return _values_at(ordered["value"], best, best < known)


FUNCTIONS: dict[str, Callable[[Frames], pl.Series]] = {
    "row_number": _row_number,
    "rank": _rank,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
    "ntile": _ntile,
    "lag": _lag,
    "lead": _lead,
    "first_value": _first_value,
    "last_value": _last_value,
    "nth_value": _nth_value,
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _least,
    "max": _greatest,
}
