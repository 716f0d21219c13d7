"""Winner: the best row of each group in every phase; a phase lasts from one change of the group to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import ORDER, WEIGHT, Delta
from operators.core.sort_key import SortKey
from operators.kernels.equal_join import equal_join
from operators.kernels.phases import PHASE, Phases
from operators.kernels.range_minimum import best_of_ranges
from operators.state.lifetimes import GROUP, Lifetimes
from operators.state.sorted_trace import SortedTrace

PRESENT = "__present"


@dataclass(frozen=True)
class Winner:
    """At each phase, the `columns` of the group's first row by `order`, all NULL if the group has none.

    The argument `stored` has the winner of each group before the step. If nothing is retracted from a group, no other
    row in its trace can win. If r rows are retracted, the best r + 1 rows are read from the trace: at least one of them
    is left at any phase, so no row behind them can win.
    """

    order: tuple[SortKey, ...]
    columns: tuple[str, ...]

    def at_phases(self, phases: Phases, rows: pl.DataFrame, stored: pl.DataFrame, trace: SortedTrace) -> pl.DataFrame:
        """A row for every phase: the `columns` of the winner, and in `PRESENT` whether there is one. `rows` has the
        changes of the step, with `PHASE`."""
        changes = rows.select(*self.columns, PHASE, WEIGHT, ORDER)
        lives = Lifetimes.of(phases, self._candidates(phases, changes, stored, trace), changes, self.order)
        alive = lives.multiplicity > 0
        winners = best_of_ranges(lives.start[alive], lives.end[alive], lives.row[alive], phases.size)
        present = pl.Series(PRESENT, winners >= 0)
        places = pl.Series(winners).replace(-1, None)
        return lives.rows.select(pl.col(self.columns).gather(places)).with_columns(present)

    def _candidates(
        self, phases: Phases, changes: pl.DataFrame, stored: pl.DataFrame, trace: SortedTrace
    ) -> pl.DataFrame:
        weights, groups = changes[WEIGHT].to_numpy(), phases.group[changes[PHASE].to_numpy()]
        leaving = np.bincount(groups, np.maximum(-weights, 0), phases.group_count).astype(np.int64)
        weight = pl.lit(1, pl.Int64).alias(WEIGHT)
        standing = stored.with_columns(pl.Series(GROUP, np.arange(stored.height)), weight).filter(
            pl.col(PRESENT) & pl.Series(leaving == 0)
        )
        kept = standing.select(*self.columns, GROUP, WEIGHT)
        losing = np.flatnonzero((leaving > 0) & stored[PRESENT].to_numpy())
        if not len(losing) or not trace.runs:
            return kept
        # The stored winner is the first of its group's rows: all rows before it in the trace have been retracted.
        behind = stored[self.order[0].column].gather(losing) if self.order else None
        best = rows_of_groups(phases, trace, losing, pl.Series(leaving[losing] + 1), behind)
        return pl.concat([kept, best.select(kept.columns)])


def rows_of_groups(
    phases: Phases,
    trace: SortedTrace,
    groups: np.ndarray,
    n: pl.Series | None = None,
    behind: pl.Series | None = None,
) -> pl.DataFrame:
    """The first rows of some groups in a trace, with the number of the group in `GROUP`. `groups` are numbers of groups
    of `phases`; `n` has the number of rows for each (None: all rows). `behind` is as in `SortedTrace.best`."""
    wanted = phases.groups.select(pl.all().gather(groups))
    best = trace.best(wanted, n, behind)
    if not trace.keys:
        return best.with_columns(pl.lit(0, pl.Int64).alias(GROUP))
    numbered = wanted.with_columns(pl.Series(GROUP, groups, pl.Int64))
    return equal_join(best, numbered, trace.keys, "inner")


def append_changes(trace: SortedTrace, phases: Phases, rows: pl.DataFrame, frontier: int) -> SortedTrace:
    """The trace with the changes of `rows` appended, together with the keys of their groups."""
    keys = phases.groups.select(pl.all().gather(phases.group[rows[PHASE].to_numpy()]))
    columns = rows.drop(PHASE, ORDER, *keys.columns, strict=False)
    return trace.append(Delta(columns.with_columns(keys.get_columns())), frontier)
