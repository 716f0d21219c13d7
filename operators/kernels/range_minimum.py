"""For all positions at once, the minimum over the ranges that cover a position."""

from __future__ import annotations

import numpy as np

_NONE = np.iinfo(np.int64).max


def best_of_ranges(starts: np.ndarray, ends: np.ndarray, ranks: np.ndarray, size: int) -> np.ndarray:
    """For each position p < size, the least rank among the ranges with `start ≤ p < end`; -1 where there is none.

    Two blocks whose length is a power of two cover a range; they may overlap because a minimum is idempotent. All
    blocks of one length are halved at once, the longest first, so the work is O(ranges + size log longest).

    >>> best_of_ranges(np.array([0, 1]), np.array([3, 2]), np.array([5, 4]), 4).tolist()
    [5, 4, 5, -1]
    """
    alive = ends > starts
    starts, ends, ranks = starts[alive], ends[alive], ranks[alive]
    levels = np.frexp(ends - starts)[1] - 1
    best = np.full(size, _NONE, np.int64)
    for level in range(int(levels.max(initial=0)), -1, -1):
        best = _lay_blocks(best, level, starts, ends, ranks, levels == level)
        if level:
            half = 1 << (level - 1)
            best[half:] = np.minimum(best[half:], best[:-half].copy()) if half < size else best[half:]
    return np.where(best == _NONE, -1, best)


def _lay_blocks(
    best: np.ndarray, level: int, starts: np.ndarray, ends: np.ndarray, ranks: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Lowers `best` at the first positions of the two blocks of 2^level that cover each chosen range."""
    if chosen.any():
        np.minimum.at(best, starts[chosen], ranks[chosen])
        np.minimum.at(best, ends[chosen] - (1 << level), ranks[chosen])
    return best
