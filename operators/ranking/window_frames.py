"""Window frames: the rows around each row that a window function reads."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import polars as pl

from operators.ranking.window_call import FrameEnd, WindowCall


@dataclass(frozen=True)
class Segments:
    """Sorted rows of many partitions: for each row, where its partition and its peers (rows equal in the order) start
    and end, ends excluded.

    >>> rows = Segments.of(np.array([0, 0, 0, 1]), np.array([True, False, True, True]))
    >>> rows.starts.tolist(), rows.ends.tolist(), rows.peer_starts.tolist(), rows.peer_ends.tolist()
    ([0, 0, 0, 3], [3, 3, 3, 4], [0, 0, 2, 3], [2, 2, 3, 4])
    """

    starts: np.ndarray
    ends: np.ndarray
    peer_starts: np.ndarray
    peer_ends: np.ndarray

    @staticmethod
    def of(partition: np.ndarray, differs: np.ndarray) -> Segments:
        """Returns the segments of sorted rows; `differs` marks rows whose order columns differ from the row before."""
        opens = np.ones(len(partition), np.bool_)
        opens[1:] = partition[1:] != partition[:-1]
        return Segments(*_spans(opens), *_spans(opens | differs))

    @property
    def places(self) -> np.ndarray:
        """The position of each row in its partition, from 0."""
        places: np.ndarray = np.arange(len(self.starts)) - self.starts
        return places

    @property
    def sizes(self) -> np.ndarray:
        """The number of rows in the partition of each row."""
        sizes: np.ndarray = self.ends - self.starts
        return sizes


def frame_bounds(call: WindowCall, rows: Segments, order_values: pl.Series | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each row, the index of the first row of its frame, and the index after its last row.

    A RANGE frame with a distance needs a single order column; the distance is in the column's unit (days for DATE,
    microseconds for TIMESTAMP). Where the value is NULL, the frame ends at the peers.

    >>> import pyarrow as pa
    >>> rows = Segments.of(np.zeros(3, np.int64), np.ones(3, np.bool_))
    >>> last_two = WindowCall("s", "sum", ("a",), pa.int64(), frame="rows", start=-1)
    >>> [bound.tolist() for bound in frame_bounds(last_two, rows, None)]
    [[0, 0, 1], [1, 2, 3]]
    """
    at = np.arange(len(rows.starts))
    if call.frame == "rows":
        low = rows.starts if call.start is None else np.maximum(at + int(call.start), rows.starts)
        high = rows.ends if call.end is None else np.minimum(at + int(call.end) + 1, rows.ends)
    elif not call.order:
        low, high = rows.starts, rows.ends
    else:
        low = _range_bound(call, call.start, (rows.starts, rows.peer_starts), rows, order_values, behind=False)
        high = _range_bound(call, call.end, (rows.ends, rows.peer_ends), rows, order_values, behind=True)
    low = np.clip(low, rows.starts, rows.ends)
    return low, np.maximum(np.clip(high, rows.starts, rows.ends), low)


def _range_bound(
    call: WindowCall,
    end: FrameEnd,
    known: tuple[np.ndarray, np.ndarray],
    rows: Segments,
    values: pl.Series | None,
    *,
    behind: bool,
) -> np.ndarray:
    """Returns a bound of RANGE frames: the index of the first row or, with `behind`, the index after the last row.
    `known` has the bounds of the partition and of the peers."""
    if end is None:
        return known[0]
    if end == 0:
        return known[1]
    assert values is not None and len(call.order) == 1, "a RANGE frame with a distance needs exactly one order column"
    bound = known[1].copy()
    present = np.flatnonzero(values.is_not_null().to_numpy())
    keys, targets = _keys(values.gather(present), end, descending=call.order[0].descending, behind=behind)
    if len(present):
        bound[present] = _reached(rows.starts[present], (keys, targets), present, behind)
    return bound


def _keys(values: pl.Series, end: int | float, *, descending: bool, behind: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns numbers in the order of the values, and for each the number at the distance `end`. For integers, and for
    decimals as unscaled integers, this is the last number within the distance.

    >>> cents = pl.Series(["-1.50", "0.24", "0.26"]).cast(pl.Decimal(7, 2))
    >>> [numbers.tolist() for numbers in _keys(cents, 1.755, descending=False, behind=True)]
    [[1, 2, 4], [3, 5, 6]]
    """
    dtype, sign = values.dtype, -1 if descending else 1
    if dtype.is_float():
        numbers = values.cast(pl.Float64).to_numpy() * sign
        return numbers, numbers + float(end)
    distance = Decimal(repr(end)).scaleb(dtype.scale if isinstance(dtype, pl.Decimal) else 0)
    whole = int(distance.to_integral_value(ROUND_FLOOR if behind else ROUND_CEILING))
    if not isinstance(dtype, pl.Decimal):
        numbers = values.to_physical().cast(pl.Int64).to_numpy() * sign
        return numbers, numbers + whole
    wide = values.to_physical().cast(pl.Int128)
    ranks = pl.concat([wide, wide + pl.Series([whole * sign], dtype=pl.Int128)]).rank("dense").cast(pl.Int64).to_numpy()
    return ranks[: len(values)] * sign, ranks[len(values) :] * sign


def _reached(
    partition: np.ndarray, numbers: tuple[np.ndarray, np.ndarray], present: np.ndarray, behind: bool
) -> np.ndarray:
    """Returns, for each key, the index of the first key of its partition that is ≥ its target (`behind`: > target)."""
    size = len(present)
    target = np.concatenate([np.zeros(size, np.bool_), np.ones(size, np.bool_)])
    # Keys and targets are sorted together by partition; among equal values a target comes first, unless `behind`. Then
    # the keys before a target are counted: keys [1 2 4] with targets [3 5 6] count [2 3 3].
    sorting = (target if behind else ~target, np.concatenate(numbers), np.tile(partition, 2))
    order = np.lexsort(sorting)
    below = np.empty(2 * size, np.int64)
    below[order] = np.cumsum(~target[order])
    # Keys of a partition are adjacent, so those before a target are counted from the partition's first key on.
    first = np.flatnonzero(np.concatenate([[True], partition[1:] != partition[:-1]]))
    base = np.repeat(first, np.diff(np.append(first, size)))
    places: np.ndarray = present[base] + below[size:] - base
    return places


def _spans(opens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each index, the start and the end of its segment, where segments begin at `opens`."""
    first = np.flatnonzero(opens)
    lengths = np.diff(np.append(first, len(opens)))
    return np.repeat(first, lengths), np.repeat(first + lengths, lengths)
