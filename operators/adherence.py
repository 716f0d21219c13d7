"""Adherence: how what came kept a promise, as part of the state of the operator that keeps it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from operators.accumulators import Accumulators

_WORST, _VIOLATIONS = "__worst", "__violations"


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


def counted(held: Accumulators, more: Adherence) -> tuple[Accumulators, Adherence]:
    """What is known with what a step has shown.

    >>> counted(counted(Accumulators(()), Adherence(3, 1))[0], Adherence(2, 4))[1]
    Adherence(worst=3, violations=5)
    """
    rows = held.lookup(pl.DataFrame({"": [0]})).select(_WORST, _VIOLATIONS).rows() if held.runs else []
    before = Adherence(*rows[0]) if rows else Adherence()
    after = before.beside(more)
    if after == before:
        return held, before
    row = pl.DataFrame({_WORST: [after.worst], _VIOLATIONS: [after.violations]})
    return held.upsert(row, pl.Series([False]), 0), after
