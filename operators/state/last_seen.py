"""The instant at which each value of a column was last seen, kept for as long as it may still be looked up."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FROM
from operators.core.run import HASH, Run
from operators.state.accumulators import Accumulators

LAST = "__last"
_NONE = np.zeros(0, np.uint64)


class Swept(NamedTuple):
    """The values that are left, whether any were dropped, and the uint64 hashes of the dropped ones."""

    seen: Accumulators
    changed: bool
    dropped: np.ndarray


def record_last_seen(seen: Accumulators, records: pl.DataFrame) -> Accumulators:
    """Returns `seen` with the instants of more records. The records have no NULLs, and no record is older than the last
    one that was seen of its value.

    >>> seen = record_last_seen(Accumulators(("a",)), pl.DataFrame({"a": [1, 1], FROM: [3, 5]}))
    >>> seen.runs[0].frame.select("a", LAST).rows()
    [(1, 5)]
    """
    (column,) = seen.keys
    latest = records.group_by(column).agg(pl.col(FROM).max().alias(LAST))
    return seen.upsert(latest, pl.repeat(False, latest.height, eager=True), 0)


def last_seen(seen: Accumulators, values: pl.Series) -> pl.Series:
    """Returns, for each value, the instant at which it was last seen; NULL if it was not."""
    (column,) = seen.keys
    keys = values.alias(column).to_frame()
    known = seen.lookup(keys.unique().drop_nulls())
    if LAST not in known.columns:
        return pl.repeat(None, len(values), dtype=pl.Int64, eager=True).alias(LAST)
    return keys.join(known, on=column, how="left", maintain_order="left")[LAST]


def forget_before(seen: Accumulators, before: int) -> Swept:
    """Drops the values last seen before an instant, if they are at least half of all values, as estimated from samples:
    O(1) amortised for each recorded value.

    >>> seen = record_last_seen(Accumulators(("a",)), pl.DataFrame({"a": [1, 2], FROM: [3, 5]}))
    >>> forget_before(seen, 5).seen.runs[0].frame["a"].to_list(), forget_before(seen, 3).changed
    ([2], False)
    """
    rows = sum(run.height for run in seen.runs)
    dead = sum(run.height * _dead_share(run, before) for run in seen.runs)
    if not rows or 2 * dead < rows:
        return Swept(seen, False, _NONE)
    kept = tuple(run.without(lambda frame: frame[LAST] < before) for run in seen.runs)
    dropped = [run.frame.filter(pl.col(LAST) < before)[HASH].to_numpy() for run in seen.runs]
    return Swept(replace(seen, runs=tuple(run for run in kept if run.height)), True, np.concatenate(dropped))


def _dead_share(run: Run, before: int) -> float:
    return float((run.sample[LAST] < before).sum()) / run.sample.height


def instant_before(instant: int, within: int) -> int:
    """Returns the instant `within` before another one, but no earlier than BEGINNING."""
    return max(instant - within, BEGINNING)
