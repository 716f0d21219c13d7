"""Rounds numbers to one value for each bucket of a histogram, within a relative error, for approximate percentiles. The
buckets are wider for greater values (Masson, Rim, Lee: "DDSketch", VLDB 2019)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

#: Floats nearer to 0 than this are rounded to 0.
_LEAST = 2.0**-1022
#: The fraction of the allowed error that is used; the rest covers rounding of floats.
_INSIDE = 1 - 1e-12
#: The least error, which needs 700 000 buckets.
MIN_ERROR = 0.001


def near_floats(values: np.ndarray, error: float) -> np.ndarray:
    """For each value a float within the relative error of it. The result is monotonic; NaN and the infinities do not
    change.

    >>> near = near_floats(np.array([0.0, 1.0, 1.01, -7.5, np.inf]), 0.05)
    >>> bool((np.abs(near[:4] - [0, 1, 1.01, -7.5]) <= [0, 0.05, 0.0505, 0.375]).all()), bool(near[1] == near[2])
    (True, True)
    """
    bounds, size = _bounds(error), np.abs(values)
    rounded = bounds[np.minimum(np.searchsorted(bounds, size), len(bounds) - 1)] * (1 - error * _INSIDE)
    near: np.ndarray = np.where(np.isfinite(values) & (size >= _LEAST), np.copysign(rounded, values), values)
    return np.where(size < _LEAST, 0.0, near)


def near_integers(values: np.ndarray, error: float) -> np.ndarray:
    """As `near_floats`, rounded to integers. Half of the error is left for this rounding, so small numbers are exact.

    >>> near_integers(np.array([3.0, 19.0, 1000.0]), 0.05).tolist()
    [3.0, 19.0, 1020.0]
    """
    rounded: np.ndarray = np.rint(near_floats(values, error / 2))
    return rounded


def buckets(error: float, decades: float, *, whole: bool = False) -> int:
    """The number of buckets that cover `decades` powers of ten of positive numbers; `whole`: for `near_integers`.

    >>> buckets(0.01, 6), buckets(0.01, 6, whole=True)
    (691, 1382)
    """
    error = error / 2 if whole else error
    return math.ceil(decades * math.log(10) / math.log((1 + error) / (1 - error)))


@lru_cache(maxsize=16)
def _bounds(error: float) -> np.ndarray:
    """The upper bounds of the buckets. They are computed only by multiplying floats, so every machine has the same."""
    inside = error * _INSIDE
    ratio, bound, found = (1 + inside) / (1 - inside), _LEAST, []
    while math.isfinite(bound):
        found.append(bound)
        bound *= ratio
    return np.array([*found, np.finfo(np.float64).max])
