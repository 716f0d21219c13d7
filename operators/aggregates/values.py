"""Distinct values: the changes of the set of values of each group, for aggregates with DISTINCT."""

from __future__ import annotations

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, WEIGHT
from operators.kernels.cells import CELL, Cells
from operators.kernels.equal_join import equal_join
from operators.state.accumulators import Accumulators
from operators.state.lifetimes import GROUP, Lifetimes

_COUNT = "__multiplicity"


def distinct_changes(
    cells: Cells, rows: pl.DataFrame, columns: tuple[str, ...], counts: Accumulators, frontier: int
) -> tuple[pl.DataFrame, Accumulators]:
    """Returns `+value` where a value enters its group and `-value` where its last copy leaves, and the multiplicities
    after the step."""
    changes = rows.select(*columns, CELL, WEIGHT, ORDER)
    if (changes[WEIGHT] > 0).all():
        return _entered(cells, changes, columns, counts, frontier)
    lives = Lifetimes.of(cells, _present_values(cells, changes, columns, counts), changes, ())
    return _entries(cells, lives, columns), _counted(cells, lives, counts, frontier)


def _entered(
    cells: Cells, changes: pl.DataFrame, columns: tuple[str, ...], counts: Accumulators, frontier: int
) -> tuple[pl.DataFrame, Accumulators]:
    """As `distinct_changes` if nothing is retracted: a value that was not present enters at its first change."""
    groups = pl.Series(GROUP, cells.group[changes[CELL].to_numpy()], pl.Int64)
    at_cells = changes.with_columns(groups).group_by(GROUP, *columns, CELL, maintain_order=True)
    first = at_cells.agg(pl.col(WEIGHT).sum(), pl.col(ORDER).max()).group_by(GROUP, *columns, maintain_order=True)
    values = _keyed(cells, first.agg(pl.col(CELL, ORDER).first(), pl.col(WEIGHT).sum()))
    stored = counts.lookup(values.select(counts.keys))
    if _COUNT in stored.columns:
        before = equal_join(values, stored.select(*counts.keys, _COUNT), counts.keys, "left")[_COUNT].fill_null(0)
    else:
        before = pl.zeros(values.height, pl.Int64, eager=True)
    multiplicity = (before + values[WEIGHT]).alias(_COUNT)
    instants = pl.Series(FROM, cells.instant[values[CELL].to_numpy()], pl.Int64)
    entries = values.with_columns(instants, pl.lit(1, pl.Int64).alias(WEIGHT)).filter(before <= 0).drop(GROUP)
    rows = values.drop(GROUP, CELL, ORDER, WEIGHT).with_columns(multiplicity)
    return entries.sort(CELL, ORDER, WEIGHT, *columns), counts.upsert(rows, multiplicity == 0, frontier)


def _present_values(
    cells: Cells, changes: pl.DataFrame, columns: tuple[str, ...], counts: Accumulators
) -> pl.DataFrame:
    """The values that change and are present before the step, with their multiplicity then."""
    groups = pl.Series(GROUP, cells.group[changes[CELL].to_numpy()], pl.Int64)
    values = changes.select(columns).with_columns(groups).unique()
    stored = counts.lookup(_keyed(cells, values).select(counts.keys))
    if _COUNT not in stored.columns:
        return values.clear().with_columns(pl.lit(0, pl.Int64).alias(WEIGHT))
    numbered = _keyed(cells, values).select(*counts.keys, GROUP)
    return equal_join(stored, numbered, counts.keys, "inner").rename({_COUNT: WEIGHT})


def _keyed(cells: Cells, values: pl.DataFrame) -> pl.DataFrame:
    """The values with the key columns of their groups, and the columns that depend on these."""
    return values.with_columns(cells.groups.select(pl.all().gather(values[GROUP].to_numpy())).get_columns())


def _entries(cells: Cells, lives: Lifetimes, columns: tuple[str, ...]) -> pl.DataFrame:
    opens = np.concatenate([[True], lives.row[1:] != lives.row[:-1]])[: len(lives.row)]
    before = np.concatenate([[0], lives.multiplicity])[: len(lives.row)]
    was_present = np.where(opens, lives.before[lives.row], before) > 0
    turns = np.sign((lives.multiplicity > 0).astype(np.int64) - was_present)
    at = np.flatnonzero(turns)
    entries = (
        _keyed(cells, lives.rows.select(pl.all().gather(lives.row[at])))
        .drop(GROUP)
        .with_columns(
            pl.Series(CELL, lives.start[at], pl.Int64),
            pl.Series(WEIGHT, turns[at], pl.Int64),
            pl.Series(ORDER, lives.order[at], pl.Int64),
            pl.Series(FROM, cells.instant[lives.start[at]], pl.Int64),
        )
    )
    return entries.sort(CELL, ORDER, WEIGHT, *columns)


def _counted(cells: Cells, lives: Lifetimes, counts: Accumulators, frontier: int) -> Accumulators:
    last = np.flatnonzero(np.append(lives.row[1:] != lives.row[:-1], True)[: len(lives.row)])
    multiplicity = pl.Series(_COUNT, lives.multiplicity[last], pl.Int64)
    rows = _keyed(cells, lives.rows).drop(GROUP).with_columns(multiplicity)
    return counts.upsert(rows, multiplicity == 0, frontier)
