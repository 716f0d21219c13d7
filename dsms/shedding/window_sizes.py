"""Decides, as a pure function, the sizes of windows with a range: the greatest sizes that memory allows.

Source: PIPES, Krämer's thesis, section 23.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

#: Fractions of a range are multiples of this.
STEP = 1 / 64
#: The part of the memory that is used. The rest is a reserve, because a smaller size takes effect only after the rows
#: of the former size have left (thesis, section 23.1).
_USED = 0.8
#: A size grows by at least this fraction, so it does not follow every small change of the rates.
_MIN_GROWTH = 1 / 8


def fraction(memory: Callable[[float], float], bound: float, before: float) -> float:
    """The next size of a query's windows, as a fraction of their range. `memory` returns the expected memory of the
    query's state for a fraction; it must grow with the fraction.

    The fraction stays as `before` while its memory is within `bound`, unless a much greater fraction fits in the used
    part of the bound. It is 0 if even the least sizes are too large.

    >>> [fraction(lambda f: 100 * f, bound, before=1.0) for bound in (200, 100, 50)]
    [1.0, 1.0, 0.390625]
    >>> [fraction(lambda f: 100 * f, 50, before) for before in (0.25, 0.375, 0.45, 0.6)]
    [0.390625, 0.375, 0.45, 0.390625]
    """
    grown = min(math.ceil((before + _MIN_GROWTH) / STEP) * STEP, 1.0)
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
