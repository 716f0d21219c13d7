"""Window functions: compute the value of each row from the rows of its frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import polars as pl

from operators.expressions.arrow_types import polars_type
from operators.kernels.unscaled_decimals import as_decimals
from operators.ranking.window_call import WindowCall
from operators.ranking.window_frames import Segments

#: Integers of 128 bits are at least -_LIMIT and below _LIMIT.
_LIMIT = 2**127


@dataclass(frozen=True)
class Frames:
    """Sorted rows with their frames: frame i holds the rows `lows[i] ≤ row < highs[i]`; `arguments` are by row."""

    call: WindowCall
    rows: Segments
    lows: np.ndarray
    highs: np.ndarray
    arguments: tuple[pl.Series, ...]


def window_values(frames: Frames) -> tuple[pl.Series, np.ndarray]:
    """Returns the function's values in the type of the call, and a mask of the values that the type cannot hold.

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
    values = typed(computed, type_).alias(frames.call.name)
    outside: np.ndarray = (values.is_null() & computed.is_not_null()).to_numpy()
    return values, outside


def typed(computed: pl.Series, type_: pl.DataType) -> pl.Series:
    """Returns the values in the type of the call, NULL where it has no such value; sums of decimals are unscaled."""
    if isinstance(type_, pl.Decimal) and computed.dtype == pl.Int128:
        computed = as_decimals(computed.cast(pl.Decimal(38, 0), strict=False), type_.scale)
    return computed.cast(type_, strict=False)


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


@dataclass(frozen=True)
class _Candidates:
    """The rows from which a value may come: all rows, or those whose argument is not NULL. `places` has their indices;
    `before` has, for each index of a row and for the end, how many of them precede it."""

    places: np.ndarray
    before: np.ndarray

    @staticmethod
    def of(frames: Frames) -> _Candidates:
        known = frames.arguments[0].is_not_null().to_numpy()
        candidates = known if frames.call.ignore_nulls else np.ones(len(known), np.bool_)
        return _Candidates(np.flatnonzero(candidates), np.concatenate([[0], np.cumsum(candidates)]))

    def value(
        self, frames: Frames, number: np.ndarray, lows: np.ndarray, highs: np.ndarray
    ) -> tuple[pl.Series, np.ndarray]:
        """Returns, for each row, the argument of the candidate with this `number`, and whether that candidate lies in
        `lows ≤ row < highs`."""
        inside = (number >= self.before[lows]) & (number < self.before[highs])
        place = self.places[np.where(inside, number, 0)] if len(self.places) else np.zeros(len(number), np.int64)
        return _values_at(frames.arguments[0], place, inside), inside


def _shifted(frames: Frames, direction: int) -> pl.Series:
    offset = direction * int(str((*frames.call.parameters, 1)[0]))
    if offset == 0:
        return frames.arguments[0]
    candidates, row = _Candidates.of(frames), np.arange(len(frames.lows))
    number = candidates.before[row] + offset if offset < 0 else candidates.before[row + 1] - 1 + offset
    shifted, inside = candidates.value(frames, number, frames.rows.starts, frames.rows.ends)
    if len(frames.call.parameters) < 2 or frames.call.parameters[1] is None:
        return shifted
    default = pl.lit(frames.call.parameters[1]).cast(shifted.dtype)
    return pl.select(pl.when(pl.Series(inside)).then(shifted).otherwise(default)).to_series()


def _lag(frames: Frames) -> pl.Series:
    return _shifted(frames, -1)


def _lead(frames: Frames) -> pl.Series:
    return _shifted(frames, 1)


def _first_value(frames: Frames) -> pl.Series:
    return _numbered(frames, 1)


def _last_value(frames: Frames) -> pl.Series:
    candidates = _Candidates.of(frames)
    return candidates.value(frames, candidates.before[frames.highs] - 1, frames.lows, frames.highs)[0]


def _nth_value(frames: Frames) -> pl.Series:
    return _numbered(frames, int(str(frames.call.parameters[0])))


def _numbered(frames: Frames, number: int) -> pl.Series:
    """Returns the argument of the row with a number, from 1, in the frame."""
    candidates = _Candidates.of(frames)
    return candidates.value(frames, candidates.before[frames.lows] + number - 1, frames.lows, frames.highs)[0]


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
    """Returns differences of exact running sums. Floats are added in the order of rows, so that the sum does not depend
    on how time is cut into steps."""
    values = frames.arguments[0]
    total = _float_sums(frames) if values.dtype.is_float() else _exact_sums(frames)
    return pl.select(pl.when(pl.Series(_counts(frames)) > 0).then(total)).to_series()


def _exact_sums(frames: Frames) -> pl.Series:
    """Returns exact sums; sums of decimals are unscaled. A sum outside 128 bits is clipped to them, to a number that no
    type can hold."""
    sums = _whole_sums(frames)
    if isinstance(sums, pl.Series):
        return sums
    return pl.Series([min(max(total, -_LIMIT), _LIMIT - 1) for total in sums], dtype=pl.Int128)


def _whole_sums(frames: Frames) -> pl.Series | list[int]:
    """Returns differences of running sums; sums of decimals are unscaled. The result is a list if a sum may be outside
    128 bits."""
    values = frames.arguments[0]
    whole = (values.to_physical() if isinstance(values.dtype, pl.Decimal) else values).cast(pl.Int128).fill_null(0)
    longest = int((frames.highs - frames.lows).max(initial=0))
    ends = [end for end in (whole.min(), whole.max()) if isinstance(end, int)]
    if longest * max(map(abs, ends), default=0) >= _LIMIT:
        running = [0, *accumulate(whole)]
        return [running[high] - running[low] for low, high in zip(frames.lows, frames.highs, strict=True)]
    # The running sum may wrap around, but its differences do not change.
    total = pl.concat([pl.Series([0], dtype=pl.Int128), whole.cum_sum()], rechunk=True)
    differences: pl.Series = total.gather(frames.highs) - total.gather(frames.lows)
    return differences


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
    values = frames.arguments[0].dtype
    if values.is_float():
        return _sum(frames) / pl.Series(_counts(frames))
    sums = pl.Series(_whole_sums(frames), dtype=pl.Float64, strict=False)
    scale = 10**values.scale if isinstance(values, pl.Decimal) else 1
    average = sums / scale / pl.Series(_counts(frames))
    return pl.select(pl.when(pl.Series(_counts(frames)) > 0).then(average)).to_series()


def _least(frames: Frames) -> pl.Series:
    return _extreme(frames, descending=False)


def _greatest(frames: Frames) -> pl.Series:
    return _extreme(frames, descending=True)


def _extreme(frames: Frames, *, descending: bool) -> pl.Series:
    """Returns the least (or greatest) value in each frame, from a sparse table: two blocks whose size is the same power
    of two cover a frame."""
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
