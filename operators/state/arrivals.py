"""Arrivals: which insertion a retraction takes back, so that rows keep the place at which they arrived."""

from __future__ import annotations

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, WEIGHT
from operators.core.sort_key import SortKey
from operators.kernels.equal_join import equal_join
from operators.state.sorted_trace import SortedTrace

#: When a row arrived: the instant and the order of its insertion.
AT, SEQUENCE = "__arrived_at", "__arrived_order"
ARRIVAL = (SortKey(AT), SortKey(SEQUENCE))
_ROW, _SIDE = "__arrival_row", "__arrival_side"


def arrivals(identity: tuple[str, ...], bound: str | None = None) -> SortedTrace:
    """The state: the copies of each row that are present, the eldest first."""
    return SortedTrace(identity, ARRIVAL, bound=bound)


def with_arrivals(rows: pl.DataFrame, present: SortedTrace) -> pl.DataFrame:
    """The changes with `AT` and `SEQUENCE`: an insertion's own, for a retraction those of the eldest copy still there.

    Of equal rows the first in is the first out. A retraction of several copies becomes as many pieces as it takes.

    >>> from operators.core.delta import Delta
    >>> changes = Delta.of([("+", {"a": 1}, 5), ("+", {"a": 1}, 6), ("-", {"a": 1}, 8)]).frame
    >>> with_arrivals(changes, arrivals(("a",))).select("__from", "__weight", AT).rows()
    [(5, 1, 5), (6, 1, 6), (8, -1, 5)]
    """
    own = rows.with_columns(pl.col(FROM).alias(AT), pl.col(ORDER).alias(SEQUENCE))
    leaving = own.filter(pl.col(WEIGHT) < 0)
    if not leaving.height:
        return own
    entering = own.filter(pl.col(WEIGHT) > 0)
    return pl.concat([entering, _matched(leaving, _copies(leaving, entering, present), present.keys)])


def _copies(leaving: pl.DataFrame, entering: pl.DataFrame, present: SortedTrace) -> pl.DataFrame:
    """The copies that may leave: the eldest that are present, and those that enter in the same step."""
    names = [*present.keys, AT, SEQUENCE, WEIGHT]
    counts = leaving.group_by(list(present.keys)).agg(-pl.col(WEIGHT).sum())
    held = present.best(counts, counts[WEIGHT])
    new = equal_join(entering.select(names), counts, present.keys, "semi")
    return pl.concat([held.select(names), new]) if held.height else new


def _matched(leaving: pl.DataFrame, copies: pl.DataFrame, identity: tuple[str, ...]) -> pl.DataFrame:
    """The j-th unit that leaves a row takes the j-th of its copies: both are laid on one line, which is cut twice."""
    keys = list(identity)
    if not copies.height:
        return leaving
    counts = leaving.group_by(keys).agg((-pl.col(WEIGHT).sum()).alias(_SIDE)).with_row_index(_ROW)
    base = np.cumsum(counts[_SIDE].to_numpy()) - counts[_SIDE].to_numpy()
    known = counts.select(*keys, _ROW, _SIDE)
    gone = equal_join(leaving, known, keys, "inner").sort(_ROW, FROM, ORDER)
    there = equal_join(copies, known, keys, "inner").sort(_ROW, AT, SEQUENCE)
    taken = base[gone[_ROW].to_numpy()] + gone.select((-pl.col(WEIGHT)).cum_sum().over(_ROW)).to_series().to_numpy()
    limit = there.select(pl.min_horizontal(pl.col(WEIGHT).cum_sum().over(_ROW), _SIDE)).to_series().to_numpy()
    given = base[there[_ROW].to_numpy()] + limit
    cuts = np.unique(np.concatenate([taken, given]))
    which = gone[np.searchsorted(taken, cuts)]
    places = there[np.minimum(np.searchsorted(given, cuts), max(0, there.height - 1))]
    weights = pl.Series(WEIGHT, -np.diff(cuts, prepend=0))
    matched = which.with_columns(places[AT], places[SEQUENCE], weights)
    return matched.select(leaving.columns)
