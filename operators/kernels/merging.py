"""Primitives for runs that are merged as in an LSM tree: distinct, repeated and merged values of sorted columns."""

from __future__ import annotations

import numpy as np

#: A run is merged into the next older run if that is less than MERGE_RATIO times as large.
MERGE_RATIO = 2


def distinct_sorted(hashes: np.ndarray) -> np.ndarray:
    """The distinct values in ascending order; several times faster than `numpy.unique`.

    >>> distinct_sorted(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(hashes)
    if not len(ordered):
        return ordered
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    distinct: np.ndarray = ordered[first]
    return distinct


def repeated(ordered: np.ndarray) -> np.ndarray:
    """For each value of a sorted column, whether it occurs more than once.

    >>> repeated(np.array([1, 1, 2])).tolist()
    [True, True, False]
    """
    flags = np.zeros(len(ordered), np.bool_)
    same = ordered[1:] == ordered[:-1]
    flags[1:] = same
    flags[:-1] |= same
    return flags


def merge_order(elder: np.ndarray, younger: np.ndarray) -> np.ndarray:
    """The indexes that sort the concatenation of two sorted columns; of equal values those of `elder` come first.

    >>> merge_order(np.array([1, 3]), np.array([1, 2])).tolist()
    [0, 2, 3, 1]
    """
    # NumPy's stable sort is a merge sort that finds the two ascending runs: one pass.
    return np.argsort(np.concatenate([elder, younger]), kind="stable")
