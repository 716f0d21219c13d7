"""The sizes of windows with a range, as a pure decision: the greatest that memory allows (PIPES, Krämer's thesis,
section 23.3)."""

from __future__ import annotations

import math
from collections.abc import Callable

#: Fractions of a range are multiples of this.
STEP = 1 / 64
#: The part of the memory that is used; the rest is a reserve, as a smaller size has its effect only when rows of the
#: former size have left (thesis, section 23.1).
_USED = 0.8
#: A size grows by no less than this, so that it does not follow every little change of the rates.
_LEAST_GROWTH = 1 / 8


def fraction(memory: Callable[[float], float], bound: float, before: float) -> float:
    """The fraction of the range that the sizes of a query's windows have next, given the memory that its state is
    expected to take for each fraction, which grows with it.

    It is the one before as long as that is within the bound, unless a much greater one is within the used part of it.
    It is 0 where even the least sizes are too large.

    >>> [fraction(lambda f: 100 * f, bound, before=1.0) for bound in (200, 100, 50)]
    [1.0, 1.0, 0.390625]
    >>> [fraction(lambda f: 100 * f, 50, before) for before in (0.25, 0.375, 0.45, 0.6)]
    [0.390625, 0.375, 0.45, 0.390625]
    """
    grown = min(math.ceil((before + _LEAST_GROWTH) / STEP) * STEP, 1.0)
    if memory(before) <= bound and (before == 1 or memory(grown) > _USED * bound):
        return before
    return _largest(memory, _USED * bound)


def _largest(memory: Callable[[float], float], bound: float) -> float:
    """The largest multiple of STEP whose memory is within a bound, by halving."""
    low, high = 0, round(1 / STEP)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if memory(middle * STEP) <= bound else (low, middle - 1)
    return low * STEP
