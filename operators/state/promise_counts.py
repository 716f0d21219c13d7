"""How a promise was kept, as part of the state of the operator that checks it."""

from __future__ import annotations

import polars as pl

from operators.core.adherence import Adherence
from operators.state.accumulators import Accumulators

_WORST, _VIOLATIONS = "__worst", "__violations"


def record_adherence(held: Accumulators, more: Adherence) -> tuple[Accumulators, Adherence]:
    """What is known with what a step has shown.

    >>> record_adherence(record_adherence(Accumulators(()), Adherence(3, 1))[0], Adherence(2, 4))[1]
    Adherence(worst=3, violations=5)
    """
    rows = held.lookup(pl.DataFrame({"": [0]})).select(_WORST, _VIOLATIONS).rows() if held.runs else []
    before = Adherence(*rows[0]) if rows else Adherence()
    after = before.combined(more)
    if after == before:
        return held, before
    row = pl.DataFrame({_WORST: [after.worst], _VIOLATIONS: [after.violations]})
    return held.upsert(row, pl.Series([False]), 0), after
