"""Band: the condition `low ≤ left - right ≤ high` as a range of one side's points for each point of the other side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from operators.kernels.points import GREATEST, LEAST, float_points, floats_of, saturating_add

_ROUNDING = {"single": 2.0**-22, "double": 2.0**-51}


@dataclass(frozen=True, slots=True)
class Band:
    """The condition `low ≤ left - right ≤ high` on two columns; `low_open` and `high_open` exclude an end.

    Sums of floats are rounded. For floats, ranges are therefore widened by the rounding errors of terms of a magnitude
    up to `terms`.

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
        """For each point of the left side, the least and the greatest point of the right side that are in the band."""
        lows = np.full(len(lefts), LEAST) if self.high is None else self._away(lefts, -self.high, 1, self.high_open)
        highs = np.full(len(lefts), GREATEST) if self.low is None else self._away(lefts, -self.low, -1, self.low_open)
        return lows, highs

    def swapped(self) -> Band:
        """The same condition with the sides swapped."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        ends = {"low": low, "high": high, "low_open": self.high_open, "high_open": self.low_open}
        return replace(self, left=self.right, right=self.left, **ends)  # type: ignore[arg-type]

    def _away(self, points: np.ndarray, distance: float, inwards: int, open_: bool) -> np.ndarray:
        """The points at a distance; `inwards` is the direction (1 or -1) into the band, to exclude an open end."""
        if self.kind == "exact" or not self.terms:
            return saturating_add(points, int(distance) + (inwards if open_ else 0))
        limit = np.finfo(np.float64).max
        values = np.clip(floats_of(points), -limit, limit)
        error = _ROUNDING[self.kind] * np.abs(values) + _ROUNDING[self.kind] * self.terms
        with np.errstate(over="ignore"):
            return float_points(values + distance - inwards * error)
