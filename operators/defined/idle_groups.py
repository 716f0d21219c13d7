"""Finds the groups whose window has become empty, and when."""

from __future__ import annotations

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.defined.fold_state import COUNT
from operators.state.accumulators import Accumulators
from operators.state.trace import Trace


def emptied(instants: np.ndarray, length: int) -> np.ndarray:
    """The instants from which on windows of a length are empty if their last rows came at `instants`.

    >>> emptied(np.array([3]), 10).tolist(), (emptied(np.array([3]), FOREVER) == FOREVER).tolist()
    ([14], [True])
    """
    span = min(length, FOREVER - 1) + 1
    ends: np.ndarray = np.minimum(instants, FOREVER - span) + span
    return ends


def with_ends(ends: Trace, groups: pl.DataFrame, count: np.ndarray, at: np.ndarray, frontier: int) -> Trace:
    """Appends to a trace, for each group, the instant `at` from which on its window is empty. `count` has the number of
    rows that have come to each group; the entry is void if more come."""
    if not groups.height:
        return ends
    reserved = {FROM: at, TO: FOREVER, WEIGHT: 1, ORDER: 0}
    rows = groups.with_columns(
        pl.Series(COUNT, count, pl.Int64),
        *(pl.lit(value).cast(pl.Int64).alias(name) for name, value in reserved.items()),
    )
    return ends.append(Delta(rows), frontier)


def idle_groups(ends: Trace, held: Accumulators, start: int, end: int) -> pl.DataFrame:
    """The keys of groups whose windows are empty from an instant in [start, end) on; a frame without rows if there are
    none. If more rows came to a group since, it has a later entry and is not returned."""
    due = [part.frame.drop(RESERVED) for part in ends.between(start, end)]
    if not due:
        return pl.DataFrame()
    last = pl.concat(due).group_by(held.keys).agg(pl.col(COUNT).max())
    known = held.lookup(last)
    if not known.height:
        return pl.DataFrame()
    return known.join(last, on=[*held.keys, COUNT], how="semi", nulls_equal=True).select(held.keys)
