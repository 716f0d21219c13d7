"""Band: `low ≤ left - right ≤ high` as the range of points of one side that a point of the other may meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from operators.kernels.points import GREATEST, LEAST, float_points, floats_of, saturating_add

_ROUNDING = {"single": 2.0**-22, "double": 2.0**-51}


@dataclass(frozen=True, slots=True)
class Band:
    """The distances from the column `right` to the column `left` that are looked for; `open` ends are left out.

    Of floats, where a sum is rounded, the range is a little wider: by what terms up to `terms` may be rounded.

    >>> lows, highs = Band("a", "b", 2, 5, high_open=True).of_right(np.array([10]))
    >>> lows.tolist(), highs.tolist()
    ([6], [8])
    """

    left: str
    right: str
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    kind: Literal["exact", "single", "double"] = "exact"
    terms: float = 0

    def of_right(self, lefts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest point of the right side that may meet each point of the left side."""
        lows = np.full(len(lefts), LEAST) if self.high is None else self._away(lefts, -self.high, 1, self.high_open)
        highs = np.full(len(lefts), GREATEST) if self.low is None else self._away(lefts, -self.low, -1, self.low_open)
        return lows, highs

    def swapped(self) -> Band:
        """The same seen from the right side."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        ends = {"low": low, "high": high, "low_open": self.high_open, "high_open": self.low_open}
        return replace(self, left=self.right, right=self.left, **ends)  # type: ignore[arg-type]

    def _away(self, points: np.ndarray, distance: float, inwards: int, open_: bool) -> np.ndarray:
        if self.kind == "exact" or not self.terms:
            return saturating_add(points, int(distance) + (inwards if open_ else 0))
        limit = np.finfo(np.float64).max
        values = np.clip(floats_of(points), -limit, limit)
        error = _ROUNDING[self.kind] * np.abs(values) + _ROUNDING[self.kind] * self.terms
        with np.errstate(over="ignore"):
            return float_points(values + distance - inwards * error)
