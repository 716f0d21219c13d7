"""Adherence: how the records that came kept a promise of their source."""

from __future__ import annotations

from typing import NamedTuple


class Adherence(NamedTuple):
    """The greatest distance among the records that kept a promise, and how many others were refused.

    >>> Adherence(3, 1).beside(Adherence(2, 4))
    Adherence(worst=3, violations=5)
    """

    worst: int = 0
    violations: int = 0

    def beside(self, other: Adherence) -> Adherence:
        """Of both together."""
        return Adherence(max(self.worst, other.worst), self.violations + other.violations)
