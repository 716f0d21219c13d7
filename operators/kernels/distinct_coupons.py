"""Estimates the number of distinct values from the number of their coupons: a sketch that hardly grows with the values.

The hash of a value determines one of m registers and a level, which is k with probability 2^-k. The coupon of the value
is the pair (register, level), as in probabilistic counting (Flajolet, Martin 1985). The estimate, ICON (Lang, "Back to
the future: an even more nearly optimal cardinality estimation algorithm", 2017), uses only the number of distinct
coupons; its standard error is ln 2 / √m. COUNT(DISTINCT coupon) is that number, and it handles retractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce
from hashlib import blake2b

import numpy as np
import polars as pl
import pyarrow as pa

from operators.kernels.canonical_zero import canonical_zero
from operators.kernels.random_fraction import splitmix

#: The number of levels; the last one includes all higher ones.
LEVELS = 32
#: The relative standard error of an estimate, times the square root of the number of registers.
STANDARD_ERROR = math.log(2)
#: The half-width, in standard errors, of an interval that contains 95 of 100 estimates.
_QUANTILE = 1.96
_SALT, _LOW, _START = 91, np.uint64(2**32 - 1), np.zeros(1, np.uint64)
#: The estimates at which the expected number of coupons is tabulated: from 1 to 2^45, 64 for each doubling.
_STEPS, _MOST = 64, 45


def registers(error: float) -> int:
    """The number of registers with which 95 of 100 estimates are within the relative `error`, or off by one.

    >>> registers(0.05), registers(0.01)
    (739, 18458)
    """
    return math.ceil((_QUANTILE * STANDARD_ERROR / error) ** 2)


def expected_coupons(values: float, count: int) -> float:
    """The expected number of different coupons that distinct values have with `count` registers.

    >>> round(expected_coupons(100, 1024), 1), round(expected_coupons(10**6, 1024))
    (98.4, 10511)
    """
    chances = np.append(2.0 ** -np.arange(1, LEVELS), 2.0 ** (1 - LEVELS)) / count
    return float(-count * np.expm1(values * np.log1p(-chances)).sum())


def estimates(coupons: np.ndarray, count: int) -> np.ndarray:
    """The numbers of distinct values (int64) for which the expected number of coupons is `coupons`.

    >>> estimates(np.array([0, 1, 98, 10511]), 1024).tolist()
    [0, 1, 100, 1000230]
    """
    expected, logarithms = _table(count)
    found = np.exp2(np.interp(coupons, expected, logarithms))
    return np.where(coupons < 2, coupons, np.rint(found)).astype(np.int64)


@lru_cache(maxsize=64)
def _table(count: int) -> tuple[np.ndarray, np.ndarray]:
    logarithms = np.linspace(0, _MOST, _STEPS * _MOST + 1)
    return np.array([expected_coupons(float(values), count) for values in np.exp2(logarithms)]), logarithms


def coupons_of(columns: Sequence[pl.Series], count: int) -> np.ndarray:
    """The coupon (int64) of each row's values with `count` registers; the coupon of a row with NULL is meaningless.

    >>> coupons_of([pl.Series(["a", "b", "a"])], 1024).tolist()
    [41473, 6273, 41473]
    """
    hashes = reduce(lambda mixed, column: splitmix(mixed.view(np.int64) ^ numbers_of(column), _SALT), columns, _START)
    register = (hashes >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)
    low = hashes & _LOW
    lowest = low & (~low + np.uint64(1))
    level = np.where(low == 0, LEVELS, np.frexp(lowest.astype(np.float64))[1])
    return register.astype(np.int64) * 64 + np.minimum(level, LEVELS)


def numbers_of(values: pl.Series) -> np.ndarray:
    """A 64-bit number for each value, the same in every process and version: the bits of an integer, a time or a float
    (-0.0 counts as 0.0), or a hash of text or bytes. Nested values are not supported."""
    if values.dtype.is_float():
        zeroed = values.to_frame("value").select(canonical_zero(pl.col("value").cast(pl.Float64)))["value"]
        filled = zeroed.fill_null(0.0).to_numpy()
        return np.where(np.isnan(filled), np.nan, filled).view(np.int64)
    if values.dtype.is_integer() or values.dtype.is_temporal() or values.dtype == pl.Boolean:
        return values.to_physical().cast(pl.Int64, wrap_numerical=True).fill_null(0).to_numpy()
    kept = values if values.dtype == pl.Binary else values.cast(pl.String)
    type_ = pa.large_binary() if values.dtype == pl.Binary else pa.large_string()
    encoded = kept.to_arrow().cast(type_).dictionary_encode()
    digests = np.array([*map(_digest, encoded.dictionary.to_pylist()), 0], np.int64)
    found: np.ndarray = digests[encoded.indices.fill_null(len(digests) - 1).to_numpy()]
    return found


def _digest(value: str | bytes | None) -> int:
    content = value.encode() if isinstance(value, str) else value or b""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little", signed=True)
