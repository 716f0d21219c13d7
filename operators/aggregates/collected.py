"""Collected: evaluates holistic aggregates (median, string_agg, …) over all rows of a group after each of its
changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from operators.aggregates.function import Holistic, Use
from operators.aggregates.holistic import RESULT
from operators.aggregates.winner import rows_of_groups
from operators.core.delta import ORDER, WEIGHT
from operators.expressions.arrow_types import polars_type
from operators.kernels.phases import PHASE, Phases
from operators.state.lifetimes import Lifetimes
from operators.state.sorted_trace import SortedTrace

#: About how many rows are materialised at a time.
_CHUNK = 4_000_000


@dataclass(frozen=True)
class Collected:
    """Reads all rows of a group at each of its changes: the cost is the group's size, summed over its phases.

    All aggregates with the same filter share one trace, which holds the `columns` of the group's rows.
    """

    columns: tuple[str, ...]

    def at_phases(
        self, phases: Phases, rows: pl.DataFrame, uses: Sequence[tuple[Use, Holistic]], trace: SortedTrace
    ) -> list[pl.Series]:
        """The results of each use at every phase. `rows` holds the changes, with their phase in `PHASE`."""
        changes = rows.select(*self.columns, PHASE, WEIGHT, ORDER)
        present = rows_of_groups(phases, trace, np.arange(phases.group_count)) if trace.runs else changes.clear()
        lives = Lifetimes.of(phases, present, changes, ())
        return [self._results(phases, lives, use, method) for use, method in uses]

    def _results(self, phases: Phases, lives: Lifetimes, use: Use, method: Holistic) -> pl.Series:
        order, required = method.order(use), method.required(use)
        ranks = lives.rows.with_row_index(RESULT).sort(
            [key.column for key in order] + [RESULT],
            descending=[key.descending for key in order] + [False],
            nulls_last=[key.nulls_last for key in order] + [False],
        )[RESULT]
        rank = np.empty(len(ranks), np.int64)
        rank[ranks.to_numpy()] = np.arange(len(ranks))
        counts = lives.rows.select(
            pl.all_horizontal([pl.col(name).is_not_null() for name in required] or [pl.lit(True)])
        )
        counted = np.broadcast_to(counts.to_series().to_numpy(), (lives.rows.height,))
        wanted = lives.rows.select([*dict.fromkeys((*use.columns, *(key.column for key in order)))])
        parts = [
            method.evaluate(
                use,
                wanted.select(pl.all().gather(row)).with_columns(pl.Series(PHASE, phase), pl.Series(WEIGHT, weight)),
            )
            for row, phase, weight in _rows_by_phase(lives, rank, counted)
        ]
        at_all = pl.DataFrame({PHASE: np.arange(phases.size)})
        if not parts:
            return pl.repeat(None, phases.size, dtype=polars_type(use.result), eager=True)
        results = at_all.join(pl.concat(parts), on=PHASE, how="left", maintain_order="left")
        return results[RESULT].cast(polars_type(use.result))


def _rows_by_phase(
    lives: Lifetimes, rank: np.ndarray, counted: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields (row, phase, multiplicity) for each phase in which a row is present, sorted by (phase, rank), in chunks of
    whole phases."""
    alive = np.flatnonzero((lives.multiplicity > 0) & counted[lives.row])
    if not len(alive):
        return
    by_start = alive[np.argsort(lives.start[alive], kind="stable")]
    for low, high in _bands(lives.start[alive], lives.end[alive]):
        start, end = np.maximum(lives.start[by_start], low), np.minimum(lives.end[by_start], high)
        in_band = end > start
        spans, start, lengths = by_start[in_band], start[in_band], (end - start)[in_band]
        # A span that starts at phase 4 and has the length 3 becomes the phases 4, 5 and 6.
        span = np.repeat(np.arange(len(spans)), lengths)
        phase = np.arange(len(span)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + start[span]
        row = lives.row[spans][span]
        sorting = np.lexsort((rank[row], phase))
        yield row[sorting], phase[sorting], lives.multiplicity[spans][span][sorting]


def _bands(starts: np.ndarray, ends: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of phases that have about `_CHUNK` rows each, or are a single phase."""
    size = int(ends.max())
    # The inner sum is the number of spans that cover each phase; the outer one is its running total over the phases.
    load = np.cumsum(np.cumsum(np.bincount(starts, minlength=size + 1) - np.bincount(ends, minlength=size + 1)))
    edges = np.searchsorted(load, np.arange(_CHUNK, load[-1] + _CHUNK, _CHUNK)) + 1
    bounds = np.unique(np.concatenate([[0], np.minimum(edges, size), [size]]))
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
