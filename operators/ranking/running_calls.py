"""Running calls: window functions over all rows up to the current row. They keep only a few values of earlier rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.expressions.arrow_types import polars_type
from operators.ranking.over_reach import reach_of
from operators.ranking.window_call import WindowCall
from operators.ranking.window_frames import Segments, frame_bounds
from operators.ranking.window_functions import Frames, typed, window_values

_NUMBERS = frozenset({"row_number", "rank", "dense_rank"})
_SUMS = frozenset({"sum", "avg", "count"})
_VALUES = frozenset({"min", "max", "first_value", "last_value"})
#: A sum is kept as high * _HIGH + low: neither part can exceed 128 bits, whatever the number of rows.
_HIGH = 10**19
_OUTSIDE = 2**127 - 1


def is_running(call: WindowCall) -> bool:
    """Whether a call reads all rows of the partition up to the row or its last peer, and nothing else.

    >>> import pyarrow as pa
    >>> from operators.core.sort_key import SortKey
    >>> is_running(WindowCall("s", "sum", ("x",), pa.int64(), order=(SortKey("t"),)))
    True
    >>> is_running(WindowCall("s", "sum", ("x",), pa.int64())), is_running(WindowCall("n", "ntile", (), pa.int64()))
    (False, False)
    """
    if call.function in _NUMBERS:
        return bool(call.order) or call.function == "row_number"
    ends_here = call.start is None and call.end == 0 and (call.frame == "rows" or bool(call.order))
    return ends_here and call.function in _SUMS | _VALUES


def rows_back(calls: Sequence[WindowCall]) -> int | None:
    """Returns how many rows before a row must be kept for all calls, if rows arrive in the order of the calls; None if
    a value may depend on rows after it or on a whole partition. Running calls keep no rows."""
    others = [call for call in calls if not is_running(call)]
    if len({call.order for call in calls}) > 1:
        return None
    reach = reach_of(others) if others else (0, 0)
    return None if reach is None or reach[1] else reach[0]


@dataclass(frozen=True)
class Arrived:
    """Rows that arrive, sorted by partition and then in their order; for each row the index of its partition
    (`member`) and its row number in the partition.

    `before`: how many rows each partition had. `known`: a row for each partition with the kept values of running calls,
    NULL if it has none.
    """

    rows: pl.DataFrame
    segments: Segments
    member: np.ndarray
    number: np.ndarray
    before: np.ndarray
    known: pl.DataFrame

    @property
    def lasts(self) -> np.ndarray:
        """The index of the last row of each partition."""
        ends: np.ndarray = np.unique(self.segments.ends) - 1
        return ends


#: The value of each row, a mask of the values outside the type of the call, and the values to keep of each partition.
Made = tuple[pl.Series, np.ndarray, list[pl.Series]]


def running_values(call: WindowCall, at: int, arrived: Arrived) -> Made:
    """Returns the values of call number `at` for the rows that arrive.

    The values are computed over all rows so far. Floats are added in the order of rows, so the values do not depend on
    how rows are cut into steps.
    """
    if call.function in _NUMBERS:
        return _numbers(call, at, arrived)
    return _extreme(call, at, arrived) if call.function in _VALUES else _sums(call, at, arrived)


def _numbers(call: WindowCall, at: int, arrived: Arrived) -> Made:
    none = np.zeros(len(arrived.number), np.bool_)
    if call.function == "row_number":
        return _value(call, pl.Series(arrived.number)), none, []
    peers = arrived.segments.peer_starts
    if call.function == "rank":
        return _value(call, pl.Series(arrived.number[peers])), none, []
    leads = np.cumsum(_leads(arrived.segments))
    held = _held(arrived, f"__n{at}", pl.Int64(), 0).to_numpy()
    dense = held[arrived.member] + leads - leads[arrived.segments.starts] + 1
    return _value(call, pl.Series(dense)), none, [pl.Series(f"__n{at}", dense[arrived.lasts], pl.Int64)]


def _extreme(call: WindowCall, at: int, arrived: Arrived) -> Made:
    """MIN, MAX, FIRST_VALUE and LAST_VALUE: the value at the last row before the step represents all rows before it."""
    name, argument = f"__value{at}", arrived.rows[call.arguments[0]]
    older = np.flatnonzero(arrived.before > 0)
    held = _held(arrived, name, argument.dtype, None).gather(older)
    group = np.concatenate([older, arrived.member])
    sorting = np.lexsort((np.arange(len(group)) >= len(older), group))
    differs = np.concatenate([np.ones(len(older), np.bool_), _leads(arrived.segments)])[sorting]
    segments = Segments.of(group[sorting], differs)
    lows, highs = frame_bounds(call, segments, None)
    every = pl.concat([held.alias("value"), argument.alias("value")])[sorting]
    values, outside = window_values(Frames(call, segments, lows, highs, (every,)))
    back = np.argsort(sorting, kind="stable")[len(older) :]
    values, outside = values.gather(back), outside[back]
    return values, outside, [values.gather(arrived.lasts).cast(argument.dtype).alias(name)]


def _sums(call: WindowCall, at: int, arrived: Arrived) -> Made:
    """COUNT, SUM and AVG."""
    upto = frame_bounds(call, arrived.segments, None)[1]
    argument = arrived.rows[call.arguments[0]] if call.arguments else None
    ones = np.ones(arrived.rows.height, np.int64) if argument is None else argument.is_not_null().to_numpy()
    counted = _added(pl.Series(ones, dtype=pl.Int64), f"__n{at}", arrived)
    counts, kept = counted.gather(upto - 1), [counted.gather(arrived.lasts).alias(f"__n{at}")]
    if call.function == "count" or argument is None:
        return _value(call, counts), np.zeros(len(counts), np.bool_), kept
    if argument.dtype.is_float():
        added = _floats(argument, f"__sum{at}", arrived)
        total, kept = added.gather(upto - 1), [*kept, added.gather(arrived.lasts).alias(f"__sum{at}")]
    else:
        parts = _parts(argument)
        high, low = (_added(part, f"__{part.name}{at}", arrived) for part in parts)
        kept += [part.gather(arrived.lasts) for part in (high, low)]
        total = _total(call, high.gather(upto - 1), low.gather(upto - 1), argument.dtype)
    if call.function == "avg":
        total = total / counts
    shown = pl.select(pl.when(counts > 0).then(total)).to_series()
    values = _value(call, shown)
    outside: np.ndarray = (values.is_null() & shown.is_not_null()).to_numpy()
    return values, outside, kept


def _parts(argument: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Returns the two parts of integers, or of unscaled decimals."""
    physical = argument.to_physical() if isinstance(argument.dtype, pl.Decimal) else argument
    whole = physical.cast(pl.Int128).fill_null(0)
    high = whole // pl.Series([_HIGH], dtype=pl.Int128)
    return high.alias("high"), (whole - high * pl.Series([_HIGH], dtype=pl.Int128)).alias("low")


def _total(call: WindowCall, high: pl.Series, low: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Returns the sums; for an average as floats. A sum outside 128 bits becomes a number that no type can hold."""
    base = pl.Series([_HIGH], dtype=pl.Int128)
    high, low = high + low // base, low - low // base * base
    inside = (high >= -_HIGH) & (high < _HIGH)
    whole = pl.select(pl.when(inside).then(high).otherwise(0)).to_series().cast(pl.Int128) * base + low
    if call.function == "avg":
        rough = high.cast(pl.Float64) * float(_HIGH) + low.cast(pl.Float64)
        total = pl.select(pl.when(inside).then(whole.cast(pl.Float64)).otherwise(rough)).to_series()
        return total / 10**dtype.scale if isinstance(dtype, pl.Decimal) else total
    return pl.select(pl.when(inside).then(whole).otherwise(pl.lit(_OUTSIDE, pl.Int128))).to_series()


def _added(values: pl.Series, name: str, arrived: Arrived) -> pl.Series:
    """Returns the exact running sums of each partition."""
    running = values.cum_sum()
    before = pl.select(pl.lit(running - values).gather(pl.lit(arrived.segments.starts))).to_series()
    held = _held(arrived, name, values.dtype, 0).gather(arrived.member)
    return (running - before + held).alias(name)


def _floats(values: pl.Series, name: str, arrived: Arrived) -> pl.Series:
    """Returns the running sums of each partition, added in the order of rows, starting from its sum before the step."""
    present = values.cast(pl.Float64).fill_null(0.0)
    first = arrived.segments.starts == np.arange(len(values))
    held = _held(arrived, name, pl.Float64(), None).gather(arrived.member)
    begun = pl.select(
        pl.when(pl.lit(pl.Series(first)) & held.is_not_null()).then(held + present).otherwise(present).alias("value")
    ).to_series()
    frame = pl.DataFrame([begun, pl.Series("member", arrived.member)])
    return frame.select(pl.col("value").cum_sum().over("member")).to_series().alias(name)


def _held(arrived: Arrived, name: str, dtype: pl.DataType, absent: int | None) -> pl.Series:
    """Returns a kept value of each partition; `absent` for a partition that has none."""
    if name not in arrived.known.columns:
        return pl.repeat(absent, len(arrived.before), dtype=dtype, eager=True).alias(name)
    held = arrived.known[name].cast(dtype)
    return held if absent is None else held.fill_null(absent)


def _leads(segments: Segments) -> np.ndarray:
    leads: np.ndarray = segments.peer_starts == np.arange(len(segments.starts))
    return leads


def _value(call: WindowCall, values: pl.Series) -> pl.Series:
    return typed(values, polars_type(call.type)).alias(call.name)
