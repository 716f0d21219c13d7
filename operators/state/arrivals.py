"""Arrivals: finds the insertion that a retraction cancels. The rows that remain keep the order of their arrival."""

from __future__ import annotations

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, WEIGHT
from operators.core.sort_key import SortKey
from operators.kernels.equal_join import equal_join
from operators.state.sorted_trace import SortedTrace

#: When a row arrived: the instant and the order of its insertion.
AT, SEQUENCE = "__arrived_at", "__arrived_order"
ARRIVAL_ORDER = (SortKey(AT), SortKey(SEQUENCE))
_ROW, _SIDE = "__arrival_row", "__arrival_side"


def arrivals(identity: tuple[str, ...], bound: str | None = None) -> SortedTrace:
    """Returns the empty state: the copies of each row that are present, the oldest first."""
    return SortedTrace(identity, ARRIVAL_ORDER, bound=bound)


def with_arrivals(rows: pl.DataFrame, present: SortedTrace) -> pl.DataFrame:
    """Returns the changes with the arrival of their copies in `AT` and `SEQUENCE`. An insertion has its own arrival; a
    retraction has the arrival of the oldest copy that is still present.

    Equal rows leave in the order of their arrival. A retraction is split if its copies have different arrivals.

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
    """Returns the copies that may leave: the oldest present ones, and those that enter in the same step."""
    names = [*present.keys, AT, SEQUENCE, WEIGHT]
    counts = leaving.group_by(list(present.keys)).agg(-pl.col(WEIGHT).sum())
    present_copies = present.best(counts, counts[WEIGHT])
    entering_copies = equal_join(entering.select(names), counts, present.keys, "semi")
    return pl.concat([present_copies.select(names), entering_copies]) if present_copies.height else entering_copies


def _matched(leaving: pl.DataFrame, copies: pl.DataFrame, identity: tuple[str, ...]) -> pl.DataFrame:
    """Pairs the j-th unit of weight that leaves a row with the j-th copy of the row."""
    keys = list(identity)
    if not copies.height:
        return leaving
    counts = leaving.group_by(keys).agg((-pl.col(WEIGHT).sum()).alias(_SIDE)).with_row_index(_ROW)
    # The units of all rows lie on one line, row after row from `base` on. Retractions cut it at `taken`, copies at
    # `given`; each piece between two cuts has one retraction and one copy. A row that loses 2 + 1 units of copies with
    # the weights 1 and 2 has taken = [2, 3] and given = [1, 3], so the pieces end at 1, 2 and 3.
    base = np.cumsum(counts[_SIDE].to_numpy()) - counts[_SIDE].to_numpy()
    known = counts.select(*keys, _ROW, _SIDE)
    departures = equal_join(leaving, known, keys, "inner").sort(_ROW, FROM, ORDER)
    arrived = equal_join(copies, known, keys, "inner").sort(_ROW, AT, SEQUENCE)
    taken = (
        base[departures[_ROW].to_numpy()]
        + departures.select((-pl.col(WEIGHT)).cum_sum().over(_ROW)).to_series().to_numpy()
    )
    limit = arrived.select(pl.min_horizontal(pl.col(WEIGHT).cum_sum().over(_ROW), _SIDE)).to_series().to_numpy()
    given = base[arrived[_ROW].to_numpy()] + limit
    cuts = np.unique(np.concatenate([taken, given]))
    pieces = departures[np.searchsorted(taken, cuts)]
    arrivals_ = arrived[np.minimum(np.searchsorted(given, cuts), max(0, arrived.height - 1))]
    weights = pl.Series(WEIGHT, -np.diff(cuts, prepend=0))
    return pieces.with_columns(arrivals_[AT], arrivals_[SEQUENCE], weights).select(leaving.columns)
