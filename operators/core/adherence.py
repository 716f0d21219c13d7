"""Adherence: how well the records so far kept a promise of their source."""

from __future__ import annotations

from typing import NamedTuple


class Adherence(NamedTuple):
    """`worst` is the greatest distance among records that kept the promise, `violations` the number of refused ones.

    >>> Adherence(3, 1).combined(Adherence(2, 4))
    Adherence(worst=3, violations=5)
    """

    worst: int = 0
    violations: int = 0

    def combined(self, other: Adherence) -> Adherence:
        """The adherence of both sets of records together."""
        return Adherence(max(self.worst, other.worst), self.violations + other.violations)
