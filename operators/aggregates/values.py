"""Distinct values: the changes of the set of values of each group, for aggregates with DISTINCT.

Aggregates over the same columns share the multiplicities of values, one for each of their filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import FROM, ORDER, WEIGHT
from operators.kernels.equal_join import equal_join
from operators.kernels.phases import PHASE, Phases
from operators.state.accumulators import Accumulators
from operators.state.lifetimes import GROUP, Lifetimes

#: A BOOLEAN column: only rows where it is TRUE are included. None: all rows are.
Filter = str | None
_AT, _VALUE = "__value_at", "__value"


def multiplicity(number: int) -> str:
    """The accumulator column that holds how often a value occurs in the rows of a filter."""
    return f"__multiplicity_{number}" if number else "__multiplicity"


def distinct_changes(
    phases: Phases, columns: tuple[str, ...], filters: Sequence[Filter], counts: Accumulators, frontier: int
) -> tuple[list[pl.DataFrame], Accumulators]:
    """Returns for each filter `+value` where a value enters its group and `-value` where its last copy leaves, and the
    multiplicities after the step."""
    rows = _counting(phases.rows, filters)
    values = _Values.of(phases, rows, columns, counts, many=len(filters))
    step = _entered if (rows[WEIGHT] > 0).all() else _changed
    changes, after = zip(*step(phases, rows, values, filters), strict=True)
    held = values.keyed.with_columns(
        pl.Series(multiplicity(number), column, pl.Int64) for number, column in enumerate(after)
    )
    gone = pl.Series(np.logical_and.reduce([column == 0 for column in after]))
    return list(changes), counts.upsert(held, gone, frontier)


def _counting(rows: pl.DataFrame, filters: Sequence[Filter]) -> pl.DataFrame:
    """The rows for which any of the filters is TRUE."""
    named = [name for name in filters if name is not None]
    return rows if len(named) < len(filters) else rows.filter(pl.any_horizontal(named))


@dataclass(frozen=True)
class _Values:
    """The distinct values among the rows of a step: `keyed` has them with the columns of their groups, `row` the number
    of each row's value, and `before`, for each filter, their multiplicities before the step."""

    columns: tuple[str, ...]
    group: pl.Series
    keyed: pl.DataFrame
    row: np.ndarray
    before: list[np.ndarray]

    @staticmethod
    def of(phases: Phases, rows: pl.DataFrame, columns: tuple[str, ...], counts: Accumulators, *, many: int) -> _Values:
        groups = pl.Series(GROUP, phases.group[rows[PHASE].to_numpy()], pl.Int64)
        numbered = rows.select(columns).with_columns(groups).with_row_index(_AT)
        found = numbered.group_by(GROUP, *columns, maintain_order=True).agg(_AT)
        row = np.empty(rows.height, np.int64)
        row[found[_AT].explode().to_numpy()] = np.repeat(np.arange(found.height), found[_AT].list.len().to_numpy())
        of_groups = phases.groups.select(pl.all().gather(found[GROUP].to_numpy()))
        keyed = found.drop(GROUP, _AT).with_columns(of_groups.get_columns())
        return _Values(columns, found[GROUP], keyed, row, _stored(keyed, counts, many))

    @property
    def height(self) -> int:
        """How many values there are."""
        return self.keyed.height

    def entries(
        self, phases: Phases, value: np.ndarray, phase: np.ndarray, weight: np.ndarray, order: np.ndarray
    ) -> pl.DataFrame:
        """The changes of the set of values, sorted by phase."""
        return (
            self.keyed.select(pl.all().gather(value))
            .with_columns(
                pl.Series(PHASE, phase, pl.Int64),
                pl.Series(WEIGHT, weight, pl.Int64),
                pl.Series(ORDER, order, pl.Int64),
                pl.Series(FROM, phases.instant[phase], pl.Int64),
            )
            .sort(PHASE, ORDER, WEIGHT, *self.columns)
        )


def _stored(values: pl.DataFrame, counts: Accumulators, many: int) -> list[np.ndarray]:
    stored = counts.lookup(values.select(counts.keys))
    names = [multiplicity(number) for number in range(many)]
    if not stored.height:
        return [np.zeros(values.height, np.int64) for _ in names]
    joined = equal_join(values.select(counts.keys), stored.select(*counts.keys, *names), counts.keys, "left")
    return [joined[name].fill_null(0).to_numpy() for name in names]


def _entered(
    phases: Phases, rows: pl.DataFrame, values: _Values, filters: Sequence[Filter]
) -> Iterator[tuple[pl.DataFrame, np.ndarray]]:
    """For each filter, the changes and the multiplicities after the step, if nothing is retracted: a value that was not
    present enters at its first row. Rows are sorted by phase and order."""
    phase, order, weight = (rows[name].to_numpy() for name in (PHASE, ORDER, WEIGHT))
    for name, before in zip(filters, values.before, strict=True):
        at = np.arange(rows.height) if name is None else np.flatnonzero(rows[name].fill_null(False).to_numpy())
        value = values.row[at]
        # of several assignments to the same value, NumPy keeps the last one
        first, last = np.full(values.height, -1), np.zeros(values.height, np.int64)
        first[value[::-1]] = at[::-1]
        together = phase[at] == phase[first[value]]
        last[value[together]] = at[together]
        new = np.flatnonzero((first >= 0) & (before <= 0))
        ones = np.ones(len(new), np.int64)
        added = np.zeros(values.height, np.int64)
        np.add.at(added, value, weight[at])
        yield values.entries(phases, new, phase[first[new]], ones, order[last[new]]), before + added


def _changed(
    phases: Phases, rows: pl.DataFrame, values: _Values, filters: Sequence[Filter]
) -> Iterator[tuple[pl.DataFrame, np.ndarray]]:
    """As `_entered`, where rows are also retracted. The number of a row's value represents the value."""
    numbered = rows.select(PHASE, WEIGHT, ORDER).with_columns(pl.Series(_VALUE, values.row, pl.Int64))
    for name, before in zip(filters, values.before, strict=True):
        changes = numbered if name is None else numbered.filter(rows[name].fill_null(False))
        present = np.flatnonzero(before)
        held = pl.DataFrame({_VALUE: present, WEIGHT: before[present], GROUP: values.group.gather(present)})
        lives = Lifetimes.of(phases, held, changes, ())
        number = lives.rows[_VALUE].to_numpy()
        after = before.copy()
        opens = np.concatenate([[True], lives.row[1:] != lives.row[:-1]])[: len(lives.row)]
        ends = np.flatnonzero(np.append(opens[1:], True)[: len(opens)])
        after[number[lives.row[ends]]] = lives.multiplicity[ends]
        earlier = np.concatenate([[0], lives.multiplicity])[: len(lives.row)]
        was_present = np.where(opens, lives.before[lives.row], earlier) > 0
        turns = np.sign((lives.multiplicity > 0).astype(np.int64) - was_present)
        at = np.flatnonzero(turns)
        yield values.entries(phases, number[lives.row[at]], lives.start[at], turns[at], lives.order[at]), after
