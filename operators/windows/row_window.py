"""RowWindow: `[Partition By … Rows N Slide L]`, the last rows of each partition of a stream (CQL section 6.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.core.run import key_hash
from operators.kernels.equal_join import equal_join
from operators.state.accumulators import Accumulators
from operators.state.copies import first_equal
from operators.state.trace import Trace

_NUMBER, _COUNT, _GROUP, _PLACE = "__number", "__count", "__group", "__place"


@dataclass(frozen=True, slots=True)
class RowWindow:
    """window(S) at τ = the rows with the numbers m - `rows` + 1 to m of each partition, where m is the greatest
    multiple of `slide` that does not exceed the partition's number of rows up to τ.

    Rows are numbered from 1 in the order of (from, order); a row of weight n is n rows. The input is insertions that
    are never retracted. The window moves when an arriving row makes the partition's count a multiple of `slide`: all
    rows that then enter and leave get the instant and the order of this arrival. State: the count of each
    partition, and, by partition and number, the rows that are in the window or will enter it. A step reads only the
    stored rows that enter or leave.

    >>> window = RowWindow(1)
    >>> rows = Delta.of([("+", {"a": 1}, 3), ("+", {"a": 2}, 5)])
    >>> window.step(rows, window.traces(), Move(0, 9)).delta.frame.select("a", FROM, WEIGHT).sort(FROM, "a").rows()
    [(1, 3, 1), (1, 5, -1), (2, 5, 1)]
    """

    operator_version: ClassVar[int] = 1
    rows: int
    partition: tuple[str, ...] = ()
    slide: int = 1

    def __post_init__(self) -> None:
        assert self.rows > 0 and self.slide > 0

    def traces(self) -> tuple[Trace, ...]:
        """The counts of partitions, and the rows by number."""
        return cast(tuple[Trace, ...], (Accumulators(self.partition), Accumulators((*self.partition, _NUMBER))))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes of the windows at the instants of the move."""
        counts, numbered = cast(tuple[Accumulators, Accumulators], traces)
        assert (delta.frame[TO] == FOREVER).all() and (delta.frame[WEIGHT] > 0).all(), "the input is a stream"
        if not len(delta):
            return Step(delta, traces)
        arrived = self._arrived(delta)
        batch = self._batch(arrived, counts)
        known = self._known(arrived, batch, numbered)
        number, group = known[_NUMBER].to_numpy(), known[_GROUP].to_numpy()
        low, high = batch.seen[group], batch.shown[group]
        enters = (number > low) & (number <= high)
        leaves = (number + self.rows > low) & (number + self.rows <= high)
        changes = self._changes(delta, arrived, batch, known, (enters, leaves))
        new = number > batch.count[group]
        stored = known.filter(pl.Series(new != leaves)).drop(_GROUP)
        after = numbered.upsert(stored, pl.Series(~new[new != leaves]), move.end)
        return Step(changes, cast(tuple[Trace, ...], (self._counted(batch, counts, move), after)))

    def _arrived(self, delta: Delta) -> pl.DataFrame:
        """The new rows, one for each copy, sorted by partition, then by (from, order), then by a hash of the row."""
        ties = key_hash(delta.frame, delta.columns) if delta.columns else pl.Series([0] * len(delta))
        grouped = delta.frame.with_columns(first_equal(delta.frame, self.partition).alias(_GROUP), ties.alias(_PLACE))
        ordered = grouped.sort(_GROUP, FROM, ORDER, _PLACE).drop(_PLACE)
        return ordered[np.repeat(np.arange(len(delta)), ordered[WEIGHT].to_numpy())]

    def _batch(self, arrived: pl.DataFrame, counts: Accumulators) -> _Batch:
        leaders = arrived[_GROUP].to_numpy()
        firsts = np.flatnonzero(np.concatenate([[True], leaders[1:] != leaders[:-1]]))
        sizes = np.diff(np.append(firsts, len(leaders)))
        heads = arrived[firsts].select(*self.partition, pl.int_range(pl.len(), dtype=pl.Int64).alias(_GROUP))
        count = self._counts(heads, counts)
        seen, shown = (total // self.slide * self.slide for total in (count, count + sizes))
        return _Batch(heads, firsts, sizes, count, seen, shown)

    def _counts(self, heads: pl.DataFrame, counts: Accumulators) -> np.ndarray:
        held = counts.lookup(heads)
        if not held.height:
            return np.zeros(heads.height, np.int64)
        if not self.partition:
            return held[_COUNT].to_numpy()
        joined = equal_join(heads, held, self.partition, "left")
        return joined[_COUNT].fill_null(0).to_numpy()

    def _known(self, arrived: pl.DataFrame, batch: _Batch, numbered: Accumulators) -> pl.DataFrame:
        """The new rows, and the stored rows that enter or leave the window, with their partition and number."""
        row = [name for name in arrived.columns if name not in (*RESERVED, _GROUP)]
        groups = np.repeat(np.arange(len(batch.sizes)), batch.sizes)
        numbers = np.arange(arrived.height) - batch.firsts[groups] + batch.count[groups] + 1
        new = arrived.select(*row, pl.Series(_NUMBER, numbers, pl.Int64), pl.Series(_GROUP, groups, pl.Int64))
        wanted = self._wanted(batch)
        held = numbered.lookup(wanted) if wanted.height else wanted
        if not wanted.height or not held.height:
            return new
        on = [*self.partition, _NUMBER]
        return pl.concat([held.join(wanted, on=on, how="inner", nulls_equal=True).select(new.columns), new])

    def _wanted(self, batch: _Batch) -> pl.DataFrame:
        """The partitions and numbers of the stored rows that enter or leave the window.

        If the end of the window moves from `seen` to `shown`, the rows with numbers in (seen - rows, shown - rows]
        leave, and those in (seen, shown] enter. Numbers above `count` belong to new rows, which are not stored.
        """
        moved = batch.shown > batch.seen
        leave = np.maximum(batch.seen - self.rows, 0), np.minimum(batch.shown - self.rows, batch.count)
        enter = np.maximum(batch.seen, leave[1]), batch.count
        parts = [_ranges(np.where(moved, low, high), high) for low, high in (leave, enter)]
        group, number = (np.concatenate(side) for side in zip(*parts, strict=True))
        return batch.heads[group].with_columns(pl.Series(_NUMBER, number, pl.Int64))

    def _changes(
        self, delta: Delta, arrived: pl.DataFrame, batch: _Batch, known: pl.DataFrame, moves: tuple[np.ndarray, ...]
    ) -> Delta:
        """The rows that enter and leave, with the instants and orders of the rows that cause this: row number n enters
        with row number ceil(n / slide) · slide, and leaves with row number ceil((n + rows) / slide) · slide."""
        group, number = known[_GROUP].to_numpy(), known[_NUMBER].to_numpy()
        instants, orders = arrived[FROM].to_numpy(), arrived[ORDER].to_numpy()
        base = batch.firsts[group] - batch.count[group] - 1
        causes = [
            np.where(moved, base - (at // -self.slide) * self.slide, 0)
            for moved, at in zip(moves, (number, number + self.rows), strict=True)
        ]
        # A row that would enter and leave at one instant is in the window at no instant.
        unseen = moves[0] & moves[1] & (instants[causes[0]] == instants[causes[1]])
        parts = []
        for moved, cause, weight in zip(moves, causes, (1, -1), strict=True):
            at = np.flatnonzero(moved & ~unseen)
            parts.append(
                known[at].select(
                    *delta.columns,
                    pl.Series(FROM, instants[cause[at]], pl.Int64),
                    pl.lit(FOREVER, pl.Int64).alias(TO),
                    pl.lit(weight, pl.Int64).alias(WEIGHT),
                    pl.Series(ORDER, orders[cause[at]], pl.Int64),
                )
            )
        return Delta(pl.concat(parts))

    def _counted(self, batch: _Batch, counts: Accumulators, move: Move) -> Accumulators:
        totals = (
            batch.heads.select(self.partition).with_columns(pl.Series(_COUNT, batch.count + batch.sizes, pl.Int64))
            if self.partition
            else pl.DataFrame({_COUNT: batch.count + batch.sizes})
        )
        return counts.upsert(totals, pl.repeat(False, totals.height, eager=True), move.end)


@dataclass(frozen=True)
class _Batch:
    """The partitions that have new rows in a step. Each field has one entry for each partition."""

    #: The key columns of the partition, and its number in `_GROUP`.
    heads: pl.DataFrame
    #: The index of its first new row.
    firsts: np.ndarray
    #: The number of its new rows.
    sizes: np.ndarray
    #: The number of its rows before the step.
    count: np.ndarray
    #: The number of the last row in the window, a multiple of the slide: before the step, and after it.
    seen: np.ndarray
    shown: np.ndarray


def _ranges(lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers in each range (low, high], as two arrays: the number of the range, and the integer."""
    sizes = np.maximum(highs - lows, 0)
    # lows [3 7] and highs [5 8] give the ranges [0 0 1] and the integers [4 5 8].
    places = np.repeat(np.arange(len(lows)), sizes)
    return places, np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + lows[places] + 1
