"""The adherence to a constraint (how well records kept it), as part of the state of the operator that enforces it."""

from __future__ import annotations

import polars as pl

from operators.core.adherence import Adherence
from operators.state.accumulators import Accumulators

_WORST, _VIOLATIONS = "__worst", "__violations"


def record_adherence(state: Accumulators, adherence: Adherence) -> tuple[Accumulators, Adherence]:
    """Adds the adherence of a step to that of all previous steps; returns the state after the step, and the sum.

    >>> record_adherence(record_adherence(Accumulators(()), Adherence(3, 1))[0], Adherence(2, 4))[1]
    Adherence(worst=3, violations=5)
    """
    rows = state.lookup(pl.DataFrame({"": [0]})).select(_WORST, _VIOLATIONS).rows() if state.runs else []
    before = Adherence(*rows[0]) if rows else Adherence()
    after = before.combined(adherence)
    if after == before:
        return state, before
    row = pl.DataFrame({_WORST: [after.worst], _VIOLATIONS: [after.violations]})
    return state.upsert(row, pl.Series([False]), 0), after
