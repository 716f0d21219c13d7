"""Synchronisation points: the instants at which a synchronised relation may change (SyncSQL section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from operators.core.delta import BEGINNING, FOREVER
from operators.core.errors import UserError

#: A longer period would have no second point, because all instants are below FOREVER.
_LONGEST_PERIOD = FOREVER
_MAX_POINTS = 100_000


@dataclass(frozen=True, slots=True)
class Periodic:
    """The instants t with `t mod period` in `residues`. The residues are sorted, below the period, and at least one.

    >>> Periodic(4, (0,)) & Periodic(6, (0,)), Periodic(4, (0,)) | Periodic(2, (1,))
    (Periodic(period=12, residues=(0,)), Periodic(period=4, residues=(0, 1, 3)))
    """

    period: int
    residues: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        assert self.period > 0
        if self.period > _LONGEST_PERIOD:
            raise UserError(f"the period {self.period} is too long", hint=f"use at most {_LONGEST_PERIOD}")
        assert self.residues == tuple(sorted({residue % self.period for residue in self.residues})) != ()

    def __and__(self, other: Periodic) -> Periodic:
        """The points in both.

        Raises:
            ValueError: the two have no point in common.
        """
        own, others, period = self._over(other)
        if not own & others:
            raise ValueError("the two have no point in common")
        return Periodic(period, tuple(sorted(own & others)))

    def __or__(self, other: Periodic) -> Periodic:
        """The points in either."""
        own, others, period = self._over(other)
        return Periodic(period, tuple(sorted(own | others)))

    def __sub__(self, other: Periodic) -> Periodic:
        """The points that are not in the other.

        Raises:
            ValueError: there are none.
        """
        own, others, period = self._over(other)
        if not own - others:
            raise ValueError("no point is left")
        return Periodic(period, tuple(sorted(own - others)))

    def next_points(self, instants: np.ndarray) -> np.ndarray:
        """The first point at or after each instant, at most FOREVER. BEGINNING and FOREVER stay as they are.

        >>> Periodic(10, (0, 4)).next_points(np.array([-1, 0, 3, 5])).tolist()
        [0, 0, 4, 10]
        >>> Periodic(10).next_points(np.array([BEGINNING, FOREVER])).tolist() == [BEGINNING, FOREVER]
        True
        """
        ahead = np.array([*self.residues, self.residues[0] + self.period], dtype=np.int64)
        residues = np.mod(instants, self.period)
        gaps = ahead[np.searchsorted(ahead[:-1], residues)] - residues
        steps = np.where(instants == BEGINNING, 0, np.minimum(gaps, FOREVER - np.maximum(instants, 0)))
        points: np.ndarray = instants + steps
        return points

    def points(self, start: int, end: int) -> np.ndarray:
        """The points with `start ≤ point < end`, ascending.

        >>> Periodic(10, (0, 4)).points(4, 20).tolist()
        [4, 10, 14]
        """
        bases = np.arange(start // self.period, -(-end // self.period), dtype=np.int64) * self.period
        every = (bases[:, None] + np.array(self.residues, dtype=np.int64)[None, :]).ravel()
        within: np.ndarray = every[(every >= start) & (every < end)]
        return within

    def count(self, start: int, end: int) -> int:
        """The number of points with `start ≤ point < end`.

        >>> Periodic(10, (0, 4)).count(4, 20), Periodic(10).count(5, 5)
        (3, 0)
        """
        first, beyond = self.numbers(np.array([start, max(start, end)], dtype=np.int64)).tolist()
        return int(beyond - first)

    def numbers(self, instants: np.ndarray) -> np.ndarray:
        """The number of the first point at or after each instant. The first point of [0, period) has number 0.

        >>> Periodic(10, (0, 4)).numbers(np.array([-1, 0, 1, 4, 5])).tolist()
        [0, 0, 1, 1, 2]
        """
        before = np.searchsorted(np.array(self.residues, dtype=np.int64), np.mod(instants, self.period))
        points_before: np.ndarray = instants // self.period * len(self.residues) + before
        return points_before

    def numbered(self, numbers: np.ndarray) -> np.ndarray:
        """The points with these numbers.

        >>> Periodic(10, (0, 4)).numbered(np.array([-1, 0, 1, 2])).tolist()
        [-6, 0, 4, 10]
        """
        period, place = np.divmod(numbers, len(self.residues))
        points: np.ndarray = period * self.period + np.array(self.residues, dtype=np.int64)[place]
        return points

    def _over(self, other: Periodic) -> tuple[set[int], set[int], int]:
        period = lcm(self.period, other.period)
        points = sum(period // part.period * len(part.residues) for part in (self, other))
        if points > _MAX_POINTS:
            raise UserError(
                f"periods {self.period} and {other.period} together have {points} points before they repeat",
                hint=f"at most {_MAX_POINTS} are allowed; use periods with a large common factor",
            )
        return self._spread(period), other._spread(period), period

    def _spread(self, period: int) -> set[int]:
        return {base + residue for base in range(0, period, self.period) for residue in self.residues}
