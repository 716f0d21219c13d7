"""RankedLevels: top-k by RANK and DENSE_RANK, where rows that tie form a level and enter or leave together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.operator import Move
from operators.core.sort_key import SortKey
from operators.kernels.equal_join import equal_join
from operators.kernels.phases import PHASE, Phases
from operators.kernels.range_minimum import best_of_ranges
from operators.ranking.best_of_spans import Method, best_of_spans
from operators.ranking.level_spans import NOT_REQUESTED, Changed, LevelSpans, RowSpans
from operators.state.copies import first_equal
from operators.state.lifetimes import GROUP, Lifetimes
from operators.state.sorted_trace import SortedTrace
from operators.state.trace import Trace

_PLACE, _LEVEL = "__place", "__level"


@dataclass(frozen=True)
class RankedLevels:
    """A level is the rows of a partition that tie in `order`. The output at τ has the rows whose level has a rank, from
    0, in [offset, worst).

    State: the rows by level, and the levels of each partition in their order with their numbers of rows. For each
    partition that changes, a step reads `worst` levels, one more for each row that leaves, and the rows of the levels
    that enter, leave or change their rank: O((|Δ| + worst + effect) log |state|).
    """

    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    worst: int
    offset: int
    method: Method
    #: Whether the rank itself is output.
    ranked: bool
    #: Whether there are no retractions. Then a level that leaves never returns, so only the best levels are kept.
    append_only: bool

    @cached_property
    def keys(self) -> tuple[SortKey, ...]:
        """The order within a partition, each column once."""
        first = {key.column: key for key in reversed(self.order) if key.column not in self.partition}
        return tuple(first[name] for name in dict.fromkeys(key.column for key in self.order) if name in first)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in which the rows of a level agree."""
        return (*self.partition, *(key.column for key in self.keys))

    def state(self) -> tuple[Trace, ...]:
        """Returns the empty state."""
        return Trace("key", self.columns), cast(Trace, SortedTrace(self.partition, self.keys))

    def changed(self, changes: pl.DataFrame, state: tuple[Trace, ...], move: Move) -> tuple[Changed, tuple[Trace, ...]]:
        """Returns the rows that enter and leave at the instants of the net `changes`, and the state after the move."""
        rows, levels = state[0], cast(SortedTrace, state[1])
        needed = changes.select(*self.columns, FROM, WEIGHT, ORDER).with_row_index(_PLACE)
        phases = Phases.of(needed, self.partition)
        lives = Lifetimes.of(phases, self._stored_levels(phases, levels), self._of_levels(phases), self.keys)
        level_spans = self._level_spans(phases, lives)
        held_rows = self._held_rows(phases, lives, level_spans, rows, move)
        own = self._own(phases, lives, level_spans)
        spans = RowSpans.of(level_spans, *self._events(changes, own, held_rows))
        kept = rows.append(Delta(self._kept_rows(changes, own, held_rows, level_spans, move)), move.end)
        ranks = levels.append(Delta(self._kept_levels(phases, lives, level_spans, move)), move.end)
        return spans.during(level_spans), (kept, cast(Trace, ranks))

    def _of_levels(self, phases: Phases) -> pl.DataFrame:
        return phases.rows.select(*(key.column for key in self.keys), PHASE, WEIGHT, ORDER)

    def _stored_levels(self, phases: Phases, levels: SortedTrace) -> pl.DataFrame:
        """Returns the levels before the step that may get a rank below `worst`, with their numbers of rows."""
        if not levels.runs:
            return self._of_levels(phases).clear()
        weights = phases.rows[WEIGHT].to_numpy()
        leaving = np.bincount(phases.group[phases.rows[PHASE].to_numpy()], np.maximum(-weights, 0), phases.group_count)
        wanted = None if self.append_only else pl.Series(leaving.astype(np.int64) + self.worst)
        groups = phases.groups.select(self.partition)
        best = levels.best(groups, wanted, copies=self.method == "rank")
        if not self.partition:
            return best.with_columns(pl.lit(0, pl.Int64).alias(GROUP))
        numbered = groups.with_columns(pl.Series(GROUP, np.arange(phases.group_count), pl.Int64))
        return equal_join(best, numbered, self.partition, "inner")

    def _level_spans(self, phases: Phases, lives: Lifetimes) -> LevelSpans:
        """Returns the spans in which levels are requested or must be kept."""
        group = lives.rows[GROUP].to_numpy()
        had, alive = np.flatnonzero(lives.before > 0), lives.multiplicity > 0
        befores, shift = phases.first[group[had]] + group[had], group[lives.row[alive]] + 1
        starts = np.concatenate([befores, lives.start[alive] + shift])
        ends = np.concatenate([befores + 1, lives.end[alive] + shift])
        level = np.concatenate([had, lives.row[alive]])
        if self.worst == 1:
            best = best_of_ranges(starts, ends, level, phases.size + phases.group_count)
            node = np.flatnonzero(best >= 0)
            return LevelSpans.of(phases, group, best[node], node, np.zeros(len(node), np.int64))
        weights = np.concatenate([lives.before[had], lives.multiplicity[alive]])
        by_rank = np.argsort(level, kind="stable")
        starts, ends, weights, peers = (values[by_rank] for values in (starts, ends, weights, level))
        ranking = best_of_spans(starts, ends, weights, peers, self.worst, self.method)
        requested = ranking.above >= self.offset
        above = np.where(requested, ranking.above if self.ranked else 0, NOT_REQUESTED)
        held = np.flatnonzero(requested | self.append_only)
        return LevelSpans.of(phases, group, peers[ranking.item[held]], ranking.node[held], above[held])

    def _levels(self, phases: Phases, lives: Lifetimes, chosen: np.ndarray) -> pl.DataFrame:
        """Returns levels with their columns and their numbers in `_LEVEL`."""
        levels = lives.rows[chosen]
        own = phases.groups.select(self.partition)[levels[GROUP].to_numpy()].get_columns() if self.partition else []
        return levels.with_columns(*own, pl.Series(_LEVEL, chosen, pl.Int64))

    def _held_rows(
        self, phases: Phases, lives: Lifetimes, level_spans: LevelSpans, rows: Trace, move: Move
    ) -> pl.DataFrame:
        """Returns the rows, before the step, of levels that enter, leave or change their rank, with their level."""
        chosen = np.unique(level_spans.level[level_spans.moves])
        chosen = chosen[lives.before[chosen] > 0]
        if not len(chosen) or not rows.runs:
            return pl.DataFrame()
        levels = self._levels(phases, lives, chosen).select(*self.columns, _LEVEL)
        return equal_join(rows.lookup(levels, move.start).frame, levels, self.columns, "inner")

    def _own(self, phases: Phases, lives: Lifetimes, level_spans: LevelSpans) -> pl.DataFrame:
        """Returns the changes in levels that have a span: the index of each change, its phase, weight and level."""
        levels = self._levels(phases, lives, np.unique(level_spans.level))
        same = [GROUP, *(key.column for key in self.keys)]
        groups = pl.Series(GROUP, phases.group[phases.rows[PHASE].to_numpy()], pl.Int64)
        changes = phases.rows.with_columns(groups).select(*same, _PLACE, PHASE, WEIGHT)
        return equal_join(changes, levels.select(*same, _LEVEL), same, "inner").select(_PLACE, PHASE, WEIGHT, _LEVEL)

    def _events(
        self, changes: pl.DataFrame, own: pl.DataFrame, held_rows: pl.DataFrame
    ) -> tuple[pl.DataFrame, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns rows, numbers that are equal for equal rows, and the rows' levels, phases (-1: before the step) and
        weights."""
        row = [name for name in changes.columns if name not in (FROM, WEIGHT, ORDER)]
        moved = changes[own[_PLACE].to_numpy()].select(row)
        parts = [own.select(PHASE, WEIGHT, _LEVEL)]
        if held_rows.height:
            moved = pl.concat([moved, held_rows.select(row)])
            parts.append(held_rows.select(pl.lit(-1, pl.Int64).alias(PHASE), WEIGHT, _LEVEL))
        events = pl.concat(parts)
        same = first_equal(moved, row).to_numpy()
        level, phase, weight = (events[name].to_numpy() for name in (_LEVEL, PHASE, WEIGHT))
        return moved, same, level, phase, weight

    def _kept_rows(
        self, changes: pl.DataFrame, own: pl.DataFrame, held_rows: pl.DataFrame, level_spans: LevelSpans, move: Move
    ) -> pl.DataFrame:
        """Returns the changes of the state's rows in a step."""
        row = [name for name in changes.columns if name not in (FROM, WEIGHT, ORDER)]
        if not self.append_only:
            return _stamped(changes.select(*row, WEIGHT), move)
        stay = own.filter(pl.Series(level_spans.at_end(own[_LEVEL].to_numpy())))
        parts = [changes[stay[_PLACE].to_numpy()].select(*row, WEIGHT)]
        if held_rows.height:
            leaving = held_rows.filter(pl.Series(~level_spans.at_end(held_rows[_LEVEL].to_numpy())))
            parts.append(leaving.select(*row, -pl.col(WEIGHT)))
        return _stamped(pl.concat(parts), move)

    def _kept_levels(self, phases: Phases, lives: Lifetimes, level_spans: LevelSpans, move: Move) -> pl.DataFrame:
        """Returns the changes of the levels' numbers of rows in a step."""
        if not self.append_only:
            return _stamped(phases.rows.select(*self.columns, WEIGHT), move)
        last = np.flatnonzero(np.diff(lives.row, append=-1))
        every = lives.row[last]
        after = np.where(level_spans.at_end(every), lives.multiplicity[last], 0)
        levels = self._levels(phases, lives, every).select(self.columns)
        added = levels.with_columns(pl.Series(WEIGHT, after - lives.before[every], pl.Int64))
        return _stamped(added.filter(pl.col(WEIGHT) != 0), move)


def _stamped(rows: pl.DataFrame, move: Move) -> pl.DataFrame:
    """Returns rows with weights as elements that start at the end of the move."""
    start, forever, order = (pl.lit(value, pl.Int64) for value in (move.end, FOREVER, 0))
    weights = rows[WEIGHT]
    return rows.drop(WEIGHT).with_columns(start.alias(FROM), forever.alias(TO), weights, order.alias(ORDER))
