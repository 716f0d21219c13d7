"""Lifetimes: the phases of its group in which each distinct row is present, and how many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.core.delta import ORDER, WEIGHT
from operators.core.sort_key import SortKey
from operators.kernels.phases import PHASE, Phases
from operators.state.sorted_trace import same_as_before

GROUP = "__group"


@dataclass(frozen=True)
class Lifetimes:
    """Spans of constant multiplicity: row `row[i]` of `rows` has `multiplicity[i]` in the phases
    `start[i] ≤ phase < end[i]`.

    A phase of a group begins at an instant at which the group changes, and lasts until its next change. `rows` are
    distinct and sorted by (group, sort keys, other columns), so the index of a row is its rank. `before` has the
    multiplicity of each row before its group's first phase, `order` the greatest order of the changes at the start of
    each span.
    """

    rows: pl.DataFrame
    before: np.ndarray
    row: np.ndarray
    start: np.ndarray
    end: np.ndarray
    multiplicity: np.ndarray
    order: np.ndarray

    @staticmethod
    def of(phases: Phases, held: pl.DataFrame, changes: pl.DataFrame, order: Sequence[SortKey]) -> Lifetimes:
        """Returns the spans of the rows that were `held` before the step (with `GROUP` and `WEIGHT`) or are changed by
        it (`changes`, with `PHASE`)."""
        columns = [name for name in changes.columns if name not in (PHASE, WEIGHT, ORDER)]
        groups = pl.Series(GROUP, phases.group[changes[PHASE].to_numpy()], pl.Int64)
        frames = [changes.select(*columns, PHASE, WEIGHT, ORDER).with_columns(groups)]
        if held.height:
            starts = pl.Series(PHASE, phases.first[held[GROUP].to_numpy()], pl.Int64)
            none = pl.lit(np.iinfo(np.int64).min, pl.Int64).alias(ORDER)
            frames.append(held.select(*columns, WEIGHT, GROUP).with_columns(starts, none).select(frames[0].columns))
        ordered = _sorted(pl.concat(frames), columns, order)
        return _spans(phases, ordered, [GROUP, *columns])


def _sorted(frame: pl.DataFrame, columns: list[str], order: Sequence[SortKey]) -> pl.DataFrame:
    by_column = {key.column: key for key in reversed(order)}
    first = dict.fromkeys(key.column for key in order)
    keys = [by_column.get(name, SortKey(name)) for name in (*first, *sorted(set(columns) - set(first)))]
    return frame.sort(
        [GROUP, *(key.column for key in keys), PHASE],
        descending=[False, *(key.descending for key in keys), False],
        nulls_last=[False, *(key.nulls_last for key in keys), False],
    )


def _spans(phases: Phases, ordered: pl.DataFrame, columns: list[str]) -> Lifetimes:
    """Returns the spans of changes sorted by (row, phase): one from each phase at which a row changes to its next such
    phase.

    Changes of row r in the phases 0, 0 and 2 with the weights 1, 1 and -1, where the group's last phase is 3, give the
    spans [0, 2) of multiplicity 2 and [2, 4) of multiplicity 1.
    """
    opens = ~same_as_before(ordered, columns)
    phase, weight = ordered[PHASE].to_numpy(), ordered[WEIGHT].to_numpy()
    starts = np.flatnonzero(opens | np.concatenate([[True], phase[1:] != phase[:-1]])[: len(phase)])
    firsts = np.flatnonzero(opens)
    row = np.cumsum(opens)[starts] - 1
    running = np.cumsum(weight)
    ends = np.append(starts[1:], len(phase)).astype(np.int64)[: len(starts)] - 1
    base = np.concatenate([[0], running])[firsts] if len(firsts) else running
    orders = ordered[ORDER].to_numpy()
    old = orders == np.iinfo(np.int64).min
    before = np.add.reduceat(np.where(old, weight, 0), firsts) if len(firsts) else np.zeros(0, np.int64)
    spans = phase[starts]
    follows = np.append(row[1:] == row[:-1], False)[: len(row)]
    until = np.where(follows, np.append(spans[1:], 0)[: len(row)], phases.last[ordered[GROUP].to_numpy()[starts]] + 1)
    greatest = np.maximum.reduceat(orders, starts) if len(starts) else orders
    rows = ordered[firsts].drop(PHASE, WEIGHT, ORDER)
    return Lifetimes(rows, before, row, spans, until, running[ends] - base[row], greatest)
