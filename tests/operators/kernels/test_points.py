"""Searches for values in many ranges at once."""

from __future__ import annotations

import numpy as np

from operators.kernels.points import first_above


def test_first_above_in_many_ranges_at_once() -> None:
    values = np.sort(np.random.default_rng(3).integers(0, 50, 200))
    begin = np.arange(0, 200, 7)
    end, limit = np.minimum(begin + 20, 200), np.arange(len(begin)) * 2 - 3
    expected = [low + int((values[low:high] <= most).sum()) for low, high, most in zip(begin, end, limit, strict=True)]
    assert first_above(values, begin, end, limit).tolist() == expected
