"""A state of copies with two indexes: for the best copies of a partition in an order, and for the copies of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import polars as pl

from operators.core.delta import RESERVED, WEIGHT, Delta
from operators.core.sort_key import SortKey
from operators.state.copies import ARRIVAL, SINCE, TIE
from operators.state.key_trace import KeyTrace
from operators.state.sorted_trace import SortedTrace
from operators.state.trace import Trace

_RETRACTED = "__retracted"


def ranked_state(row: Sequence[str], partition: Sequence[str], order: Sequence[SortKey]) -> tuple[Trace, ...]:
    """Returns the empty state: a trace of the copies by row, and one by partition. In the second, the copies of a
    partition are sorted by `order`, equal ones by arrival."""
    ties = (SortKey(SINCE), SortKey(ARRIVAL), SortKey(TIE))
    return (KeyTrace("key", tuple(row)), cast(Trace, SortedTrace(tuple(partition), (*order, *ties))))


def with_changes(state: tuple[Trace, ...], changes: Delta, frontier: int) -> tuple[Trace, ...]:
    """Returns the state with copies added or removed."""
    by_row, ranked = state
    return (by_row.append(changes, frontier), ranked.append(changes, frontier))


def best_and_leaving(
    state: tuple[Trace, ...], changes: pl.DataFrame, partition: Sequence[str], best: int, frontier: int
) -> pl.DataFrame | None:
    """Returns the copies of each changing partition that may be among the `best` at some instant of the step, and all
    copies of the rows that changes retract; None if the state is empty.

    If r copies leave, the copies that move up are among the first best + r. A copy behind these stays behind, because
    at least `best` of them remain.
    """
    by_row, ranked = state[0], cast(SortedTrace, state[1])
    if not by_row.runs:
        return None
    row = [name for name in changes.columns if name not in RESERVED]
    leaving = changes.filter(pl.col(WEIGHT) < 0)
    wanted = _retractions(changes, partition)
    ranked_rows = ranked.best(wanted.select(partition), wanted[_RETRACTED] + best)
    columns = [*row, SINCE, ARRIVAL, TIE, WEIGHT]
    front = ranked_rows.select(columns) if TIE in ranked_rows.columns else None
    if leaving.height:
        copies = by_row.lookup(leaving.select(row).unique(), frontier).frame.select(columns)
        if front is None:
            return copies
        front = pl.concat([front.join(leaving, on=row, how="anti", nulls_equal=True), copies])
    return front


def _retractions(changes: pl.DataFrame, partition: Sequence[str]) -> pl.DataFrame:
    """Returns the partitions that change, and how many copies leave each."""
    lost = (-pl.col(WEIGHT)).clip(0, None).sum().alias(_RETRACTED)
    return changes.group_by(list(partition)).agg(lost) if partition else changes.select(lost)
