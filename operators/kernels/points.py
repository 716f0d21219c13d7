"""Points: values of ordered types as 64-bit integers in the same order, and binary searches in many ranges at once."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

LEAST, GREATEST = -(2**63), 2**63 - 1
_DIGITS = 18


def has_points(kind: pa.DataType) -> bool:
    """Whether values of a type have points: numbers of at most 64 bits, dates and timestamps.

    >>> has_points(pa.int32()), has_points(pa.string())
    (True, False)
    """
    if pa.types.is_decimal(kind):
        return int(kind.precision) <= _DIGITS
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def points_of(values: pl.Series) -> np.ndarray:
    """The int64 points p of values without NULLs: p(a) < p(b) if and only if a < b, where 0.0 equals -0.0 and NaN is
    the greatest number.

    >>> points_of(pl.Series([float("nan"), 1.5, -2.0, float("inf")])).argsort().tolist()
    [2, 1, 3, 0]
    """
    if values.dtype.is_float():
        return float_points(values.cast(pl.Float64).to_numpy())
    return np.asarray(values.to_physical().cast(pl.Int64).to_numpy())


def float_points(values: np.ndarray) -> np.ndarray:
    """The points of float64 values: their bits, with all bits but the sign inverted for negative numbers.

    >>> floats_of(float_points(np.array([-1.5, 0.0, 2.0]))).tolist()
    [-1.5, 0.0, 2.0]
    """
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & GREATEST)


def floats_of(points: np.ndarray) -> np.ndarray:
    """The floats with these points: the inverse of `float_points`."""
    floats: np.ndarray = (points ^ ((points >> 63) & GREATEST)).view(np.float64)
    return floats


def saturating_add(points: np.ndarray, distance: int) -> np.ndarray:
    """The points plus a distance, clamped to LEAST and GREATEST.

    >>> saturating_add(np.array([GREATEST, 3]), 2).tolist() == [GREATEST, 5]
    True
    """
    if distance >= 0:
        return np.where(points > GREATEST - distance, GREATEST, points + min(distance, GREATEST))
    return np.where(points < LEAST - distance, LEAST, points + max(distance, LEAST))


def first_at_least(values: np.ndarray, begin: np.ndarray, end: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each range [begin, end) of ascending values, the index of its first value ≥ `wanted`; `end` if none.

    >>> first_at_least(np.array([1, 5, 2, 4]), np.array([0, 2]), np.array([2, 4]), np.array([2, 5])).tolist()
    [1, 4]
    """
    low, high = begin.copy(), end.copy()
    while len(wide := np.flatnonzero(low < high)):
        middle = (low[wide] + high[wide]) >> 1
        less = values[middle] < wanted[wide]
        low[wide] = np.where(less, middle + 1, low[wide])
        high[wide] = np.where(less, high[wide], middle)
    return low


def first_above(points: np.ndarray, begin: np.ndarray, end: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each range [begin, end) of ascending points, the index of its first point > `wanted`; `end` if none.

    >>> first_above(np.array([1, 3, 3]), np.array([0, 0]), np.array([3, 3]), np.array([1, 3])).tolist()
    [1, 3]
    """
    last = wanted == GREATEST
    return first_at_least(points, np.where(last, end, begin), end, wanted + ~last)


def expand_ranges(begin: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expands ranges of consecutive integers, one after the other: for each integer the number of its range, and the
    integer. Range i is `begin[i]`, `begin[i] + 1`, … and has the length `counts[i]`.

    >>> [part.tolist() for part in expand_ranges(np.array([4, 0]), np.array([2, 1]))]
    [[0, 0, 1], [4, 5, 0]]
    """
    ranges = np.repeat(np.arange(len(counts)), counts)
    return ranges, np.arange(len(ranges)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
