"""When each value of a column was seen last, as long as that may still be asked for."""

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
    """The values that are left, whether any went, and the hashes of those that did."""

    seen: Accumulators
    anew: bool
    gone: np.ndarray


def noted(seen: Accumulators, records: pl.DataFrame) -> Accumulators:
    """With the instants of records, of which no value is NULL and none is older than what was seen of its value.

    >>> noted(Accumulators(("a",)), pl.DataFrame({"a": [1, 1], FROM: [3, 5]})).runs[0].frame.select("a", LAST).rows()
    [(1, 5)]
    """
    (column,) = seen.keys
    latest = records.group_by(column).agg(pl.col(FROM).max().alias(LAST))
    return seen.upsert(latest, pl.repeat(False, latest.height, eager=True), 0)


def last_of(seen: Accumulators, values: pl.Series) -> pl.Series:
    """For each value the instant at which it was seen last; NULL where it was not."""
    (column,) = seen.keys
    asked = values.alias(column).to_frame()
    found = seen.lookup(asked.unique().drop_nulls())
    if LAST not in found.columns:
        return pl.repeat(None, len(values), dtype=pl.Int64, eager=True).alias(LAST)
    return asked.join(found, on=column, how="left", maintain_order="left")[LAST]


def swept(seen: Accumulators, before: int) -> Swept:
    """Without values that were seen last before an instant, where a sample says that these are the half: O(1) amortised
    for each value noted.

    >>> seen = noted(Accumulators(("a",)), pl.DataFrame({"a": [1, 2], FROM: [3, 5]}))
    >>> swept(seen, 5).seen.runs[0].frame["a"].to_list(), swept(seen, 3).anew
    ([2], False)
    """
    rows = sum(run.height for run in seen.runs)
    dead = sum(run.height * _share(run, before) for run in seen.runs)
    if not rows or 2 * dead < rows:
        return Swept(seen, False, _NONE)
    kept = tuple(Run(run.frame.filter(pl.col(LAST) >= before), "key") for run in seen.runs)
    gone = [run.frame.filter(pl.col(LAST) < before)[HASH].to_numpy() for run in seen.runs]
    return Swept(replace(seen, runs=tuple(run for run in kept if run.height)), True, np.concatenate(gone))


def _share(run: Run, before: int) -> float:
    return float((run.sample[LAST] < before).sum()) / run.sample.height


def earlier(instant: int, within: int) -> int:
    """An instant minus a distance, no less than the first one."""
    return max(instant - within, BEGINNING)
