"""PartitionsToDrop: finds the partitions of a fold whose windows have become empty, to drop their state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.state.accumulators import Accumulators
from operators.state.trace import Trace
from operators.user_aggregates.empty_windows import starts_over
from operators.user_aggregates.fold_events import Batch
from operators.user_aggregates.fold_plan import FoldCall, Frame
from operators.user_aggregates.fold_state import ARRIVED, Loaded


@dataclass(frozen=True, slots=True)
class PartitionsToDrop:
    """Partitions of a fold over windows of RANGE `length` that are dropped once their window is empty.

    With ACTIVE EXPIRATION, that is when the last row has left. Otherwise a trace `ends` holds, for each partition, the
    instant from which on its window is empty, and the number of rows that have arrived so far. An entry is valid while
    the partition has that number of rows; each arrival adds a new entry.
    """

    keys: tuple[str, ...]
    length: int
    active: bool

    @staticmethod
    def of(group_by: tuple[str, ...], calls: Sequence[FoldCall], frame: Frame | None) -> PartitionsToDrop | None:
        """Returns None if no partition may be dropped: rows are not partitioned, windows have no length in time, or a
        call does not start over when its window is empty."""
        if not group_by or frame is None or frame.kind != "range" or frame.length is None:
            return None
        return PartitionsToDrop(group_by, frame.length, frame.active) if all(map(starts_over, calls)) else None

    def due(self, ends: Trace, held: Accumulators, start: int, end: int) -> pl.DataFrame:
        """The keys of the partitions whose windows become empty at an instant in [start, end) if no row arrives, as a
        frame. `held` is the state of the partitions."""
        found = [] if self.active else [part.frame.drop(RESERVED) for part in ends.between(start, end)]
        if not found:
            return pl.DataFrame()
        last = pl.concat(found).group_by(held.keys).agg(pl.col(ARRIVED).max())
        known = held.lookup(last)
        if not known.height:
            return pl.DataFrame()
        return known.join(last, on=[*held.keys, ARRIVED], how="semi", nulls_equal=True).select(held.keys)

    def drop(self, batch: Batch, loaded: Loaded, ends: Trace, start: int, end: int) -> tuple[np.ndarray, Trace]:
        """Returns a mask of the loaded partitions that are dropped at the end of a step over [start, end), and the
        trace `ends` after the step. Clears the tables of the dropped partitions."""
        if self.active:
            dropped = loaded.arrived == loaded.departed
        else:
            active = np.flatnonzero(batch.ends > batch.starts)
            empty = emptied(batch.instants[batch.ends[active] - 1], self.length)
            dropped = np.ones(len(loaded.arrived), np.bool_)
            dropped[active] = empty < end
            stays = active[empty >= end]
            ends = self._with_ends(ends, loaded, stays, empty[empty >= end], start).forget(end)
        for at in np.flatnonzero(dropped).tolist():
            for groups in loaded.groups:
                for table in (*groups.tables[at], *groups.windows[at : at + 1]):
                    table.clear()
        return dropped, ends

    def _with_ends(self, ends: Trace, loaded: Loaded, stays: np.ndarray, empty: np.ndarray, frontier: int) -> Trace:
        """The trace with an entry added for each partition of `stays`: the instants `empty` from which on their windows
        are empty."""
        if not len(stays):
            return ends
        reserved = {FROM: empty, TO: FOREVER, WEIGHT: 1, ORDER: 0}
        rows = (
            loaded.heads[stays]
            .select(self.keys)
            .with_columns(
                pl.Series(ARRIVED, loaded.arrived[stays], pl.Int64),
                *(pl.lit(value).cast(pl.Int64).alias(name) for name, value in reserved.items()),
            )
        )
        return ends.append(Delta(rows), frontier)


def emptied(instants: np.ndarray, length: int) -> np.ndarray:
    """The instants from which on windows of a length are empty if their last rows entered at `instants`.

    >>> emptied(np.array([3]), 10).tolist(), (emptied(np.array([3]), FOREVER) == FOREVER).tolist()
    ([14], [True])
    """
    span = min(length, FOREVER - 1) + 1
    ends: np.ndarray = np.minimum(instants, FOREVER - span) + span
    return ends
