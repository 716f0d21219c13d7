"""TopK: the rows of each partition with the best ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl
import pyarrow as pa

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.core.sort_key import SortKey
from operators.ranking.best_of_spans import Method, Ranking, best_of_spans
from operators.ranking.level_spans import Changed
from operators.ranking.ranked_levels import RankedLevels
from operators.ranking.timeline import Timeline
from operators.state.copies import (
    DEATH,
    ROW,
    first_equal,
    held_copies,
    match_copies,
    net_changes,
    ordered_by,
    state_changes,
    state_of_partitions,
    updated_state,
)
from operators.state.ranked_state import best_and_leaving, ranked_state, with_changes
from operators.state.sorted_trace import same_as_before
from operators.state.trace import Trace

_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class TopK:
    """top(A) at τ = the rows of A at τ whose rank in their partition is in (offset, offset + limit].

    `method` and `order` determine the ranks; `rank` names a column for them. Rows that tie in `order` are numbered by
    (instant, order) of arrival, the oldest first; of several copies of a row, the oldest leaves first. Input and output
    are changes (elements that end by a retraction).

    With `append_only` there are no retractions, and the state is the best `offset + limit` rows of each partition.
    Otherwise the state is all rows. With a limit, a step reads the best `offset + limit + retractions` rows of each
    partition that changes; for ranks with ties it reads as many levels, and the rows of levels that enter or leave
    (`RankedLevels`). Without a limit or with nested columns, it reads whole partitions. `bound` names a column of the
    partition, of integers or times: a partition with `bound ≤ frontier` never changes again and leaves the state. All
    instants of a step are ranked together, in O((rows + instants · (offset + limit)) log instants).

    >>> best = TopK(("a",), (SortKey("p", descending=True),), 1)
    >>> bids = Delta.of([("+", {"a": 1, "p": 5}, 3), ("+", {"a": 1, "p": 7}, 4), ("+", {"a": 1, "p": 6}, 5)])
    >>> best.step(bids, best.traces(), Move(0, 9)).delta.frame.select("p", FROM, WEIGHT).sort(FROM, WEIGHT).rows()
    [(5, 3, 1), (5, 4, -1), (7, 4, 1)]
    """

    operator_version: ClassVar[int] = 1
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0
    method: Method = "row_number"
    rank: str | None = None
    schema: pa.Schema = pa.schema([])
    append_only: bool = False
    bound: str | None = None

    def traces(self) -> tuple[Trace, ...]:
        """Returns the empty traces: the copies of rows by partition; or by row and, sorted by `order`, by partition; or
        the rows by level and the levels."""
        return tuple(replace(trace, bound=self.bound) for trace in self._traces())

    def _traces(self) -> tuple[Trace, ...]:
        if (levels := self._levels()) is not None:
            return levels.state()
        if self._searches():
            return ranked_state(self.schema.names, self.partition, self.order)
        return (state_of_partitions(self.partition),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """Returns the changes of the best rows at the instants of the move."""
        changes, row = net_changes(delta), delta.columns
        if not changes.height:
            return Step(self._output(delta.frame.clear(), row, np.empty(0, np.int64)), traces)
        if (levels := self._levels()) is not None:
            changed, state = levels.changed(changes, traces, move)
            return Step(self._of_levels(changed, row), state)
        keys = [(key.column, key.descending, key.nulls_last) for key in self.order]
        copies = ordered_by(match_copies(self._stored_copies(changes, traces, move), changes), keys)
        line = Timeline.of(copies, partition_numbers(copies, self.partition))
        best = self._ranking(copies, line)
        kept = _only_best(copies, best, line) if self.append_only and self.limit is not None else copies
        if self._searches():
            after = with_changes(traces, state_changes(kept, row, move.end), move.end)
        else:
            after = (updated_state(traces[0], kept, self.partition, move.end),)
        return Step(self._changes(copies, best, line, row), after)

    def _searches(self) -> bool:
        """Whether the state is sorted, so that a step reads only the best rows of a partition."""
        return self._limited() and self.method == "row_number" and not self.append_only

    def _levels(self) -> RankedLevels | None:
        """Returns the levels, if ranks have ties and are computed without reading whole partitions; else None."""
        if not self._limited() or self.method == "row_number" or not (self.partition or self.order):
            return None
        options = (self.method, self.rank is not None, self.append_only)
        return RankedLevels(self.partition, self.order, self._worst(), self.offset, *options)

    def _limited(self) -> bool:
        flat = len(self.schema) > 0 and not any(pa.types.is_nested(type_) for type_ in self.schema.types)
        return flat and self.limit is not None

    def _of_levels(self, changed: Changed, row: list[str]) -> Delta:
        elements = changed.rows[changed.row].select(
            *row,
            pl.Series(FROM, changed.instant, pl.Int64),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.Series(WEIGHT, changed.weight, pl.Int64),
            pl.Series(ORDER, changed.order, pl.Int64),
        )
        return self._output(elements, row, changed.above + 1)

    def _stored_copies(self, changes: pl.DataFrame, traces: tuple[Trace, ...], move: Move) -> pl.DataFrame | None:
        if self._searches():
            return best_and_leaving(traces, changes, self.partition, self._worst(), move.start)
        return held_copies(traces[0], changes, self.partition, move.start)

    def _worst(self) -> int:
        return _UNLIMITED if self.limit is None else self.offset + self.limit

    def _ranking(self, copies: pl.DataFrame, line: Timeline) -> Ranking:
        columns = [key.column for key in self.order]
        peers = np.cumsum(~same_as_before(copies, columns)) if self.method != "row_number" else np.empty(0, np.int64)
        weights = copies[WEIGHT].to_numpy()
        return best_of_spans(line.starts, line.ends, weights, peers, self._worst(), self.method)

    def _changes(self, copies: pl.DataFrame, best: Ranking, line: Timeline, row: list[str]) -> Delta:
        """Returns the changes of the ranked rows, or of the rows if no rank is output, from each phase to the next."""
        weights, rows = copies[WEIGHT].to_numpy()[best.item], copies[ROW].to_numpy()
        above = best.above
        if self.method == "row_number":
            weights = np.minimum(above + weights, self._worst()) - np.maximum(above, self.offset)
            above = np.maximum(above, self.offset)
        counts = np.where(above >= self.offset, np.maximum(weights, 0), 0)
        entry = np.flatnonzero(counts)
        # Every copy has its own row number: an entry with above 3 and count 2 becomes the ranks 3 and 4.
        if self.rank is not None and self.method == "row_number":
            entry = np.repeat(np.arange(len(counts)), counts)
            above = above[entry] + np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
            amounts = np.ones(len(entry), np.int64)
        else:
            above, amounts = above[entry], counts[entry]
        item = best.item[entry]
        codes = rows[item] * (int(above.max(initial=0)) + 1) + above if self.rank is not None else rows[item]
        changed = line.differences(best.node[entry], codes, amounts)
        elements = copies[item[changed.examples]].select(
            *row,
            pl.Series(FROM, line.instants[changed.phases], pl.Int64),
            pl.lit(FOREVER, pl.Int64).alias(TO),
            pl.Series(WEIGHT, changed.weights, pl.Int64),
            pl.Series(ORDER, line.orders[changed.phases], pl.Int64),
        )
        return self._output(elements, row, above[changed.examples] + 1)

    def _output(self, elements: pl.DataFrame, row: list[str], ranks: np.ndarray) -> Delta:
        if self.rank is None:
            return Delta(elements)
        return Delta(elements.with_columns(pl.Series(self.rank, ranks, pl.Int64)).select(*row, self.rank, *RESERVED))


def partition_numbers(copies: pl.DataFrame, partition: Sequence[str]) -> np.ndarray:
    """Returns the number of each row's partition, from 0 in the order of first appearance."""
    leaders = first_equal(copies, partition).to_numpy()
    numbers = np.cumsum(leaders == np.arange(len(leaders))) - 1
    groups: np.ndarray = numbers[leaders]
    return groups


def _only_best(copies: pl.DataFrame, best: Ranking, line: Timeline) -> pl.DataFrame:
    """Removes the copies that are not among the best at the end of the step from the state, by setting their death:
    without retractions they never return."""
    stays = np.zeros(copies.height, np.bool_)
    stays[best.item[best.node == line.ends[best.item] - 1]] = True
    return copies.with_columns(pl.when(pl.Series(stays)).then(FOREVER).otherwise(0).cast(pl.Int64).alias(DEATH))
