"""The best row of each group at every cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import ORDER, WEIGHT, Delta
from operators.core.sort_key import SortKey
from operators.kernels.cells import CELL, Cells
from operators.kernels.equal_join import equal_join
from operators.kernels.range_minimum import best_of_ranges
from operators.state.lifetimes import GROUP, Lifetimes
from operators.state.sorted_trace import SortedTrace

PRESENT = "__present"


@dataclass(frozen=True)
class Winner:
    """At each cell: the first row by `order` of those in the group, as its `columns`, all NULL where there is none.

    `stored` has the winners before the step. Where nothing is retracted a stored winner stands for all rows of its
    group; elsewhere as many of the best rows are taken from the trace as are retracted, and one more: at least one of
    them is left at any cell, and nothing behind them can win.
    """

    order: tuple[SortKey, ...]
    columns: tuple[str, ...]

    def at_cells(self, cells: Cells, rows: pl.DataFrame, stored: pl.DataFrame, trace: SortedTrace) -> pl.DataFrame:
        """The winners: `columns`, and `PRESENT`. `rows` are the changes, with `CELL`."""
        changes = rows.select(*self.columns, CELL, WEIGHT, ORDER)
        lives = Lifetimes.of(cells, self._held(cells, changes, stored, trace), changes, self.order)
        alive = lives.multiplicity > 0
        winners = best_of_ranges(lives.start[alive], lives.end[alive], lives.row[alive], cells.size)
        there = pl.Series(PRESENT, winners >= 0)
        places = pl.Series(winners).replace(-1, None)
        return lives.rows.select(pl.col(self.columns).gather(places)).with_columns(there)

    def _held(self, cells: Cells, changes: pl.DataFrame, stored: pl.DataFrame, trace: SortedTrace) -> pl.DataFrame:
        weights, groups = changes[WEIGHT].to_numpy(), cells.group[changes[CELL].to_numpy()]
        leaving = np.bincount(groups, np.maximum(-weights, 0), cells.members).astype(np.int64)
        one = pl.lit(1, pl.Int64).alias(WEIGHT)
        standing = stored.with_columns(pl.Series(GROUP, np.arange(stored.height)), one).filter(
            pl.col(PRESENT) & pl.Series(leaving == 0)
        )
        kept = standing.select(*self.columns, GROUP, WEIGHT)
        losing = np.flatnonzero((leaving > 0) & stored[PRESENT].to_numpy())
        if not len(losing) or not trace.runs:
            return kept
        # The winner is the first of its group's rows: whatever comes before it has been retracted.
        behind = stored[self.order[0].column].gather(losing) if self.order else None
        found = rows_of_groups(cells, trace, losing, pl.Series(leaving[losing] + 1), behind)
        return pl.concat([kept, found.select(kept.columns)])


def rows_of_groups(
    cells: Cells,
    trace: SortedTrace,
    groups: np.ndarray,
    n: pl.Series | None = None,
    behind: pl.Series | None = None,
) -> pl.DataFrame:
    """The first `n` rows, or all, that a trace has of some of the groups, with `GROUP`. `behind` is as of `best`."""
    wanted = cells.groups.select(pl.all().gather(groups))
    found = trace.best(wanted, n, behind)
    if not trace.keys:
        return found.with_columns(pl.lit(0, pl.Int64).alias(GROUP))
    numbered = wanted.with_columns(pl.Series(GROUP, groups, pl.Int64))
    return equal_join(found, numbered, trace.keys, "inner")


def append_changes(trace: SortedTrace, cells: Cells, rows: pl.DataFrame, frontier: int) -> SortedTrace:
    """The trace with the changes of `rows`, under the keys of their groups."""
    keys = cells.groups.select(pl.all().gather(cells.group[rows[CELL].to_numpy()]))
    columns = rows.drop(CELL, ORDER, *keys.columns, strict=False)
    return trace.append(Delta(columns.with_columns(keys.get_columns())), frontier)
