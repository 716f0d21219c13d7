"""Istream, Dstream and Rstream: relations as append-only streams (CQL section 5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from operators.core.delta import BEGINNING, FOREVER, FROM, ORDER, RESERVED, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.sync.sync_points import Periodic

_ALL, _ROW, _NEXT = "__all", "__row", "__next"


@dataclass(frozen=True, slots=True)
class Istream:
    """Emits a row at τ as many times as its multiplicity rises from τ - 1 to τ. Stateless, as instants are integers.

    >>> changes = Delta.of([("+", {"a": 1}, 3), ("-", {"a": 1}, 5), ("+", {"a": 1}, 5), ("+", {"a": 1}, 5)])
    >>> Istream().step(changes, (), Move(0, 9)).delta.frame.select("a", FROM, WEIGHT).rows()
    [(1, 3, 1), (1, 5, 1)]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows that enter."""
        return Step(Delta(delta.consolidate().frame.filter(pl.col(WEIGHT) > 0)))


@dataclass(frozen=True, slots=True)
class Dstream:
    """Emits a row at τ as many times as its multiplicity falls from τ - 1 to τ. Stateless.

    >>> changes = Delta.of([("+", {"a": 1}, 3), ("-", {"a": 1}, 5)])
    >>> Dstream().step(changes, (), Move(0, 9)).delta.frame.select("a", FROM, WEIGHT).rows()
    [(1, 5, 1)]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows that leave."""
        return Step(Delta(delta.negate().consolidate().frame.filter(pl.col(WEIGHT) > 0)))


@dataclass(frozen=True, slots=True)
class Rstream:
    """Emits the whole relation at every point, from the first point at or after the first change.

    Rows that are valid from BEGINNING are not a change: they are emitted together with the others. Rows that did not
    change at a point are not caused by a record, so all orders are 0. By definition, the output and the work at a point
    are proportional to the size of the relation. State: the relation, and the first change.

    >>> stream = Rstream(Periodic(5))
    >>> rows = Delta.of([("+", {"a": 1}, 3)])
    >>> stream.step(rows, stream.traces(), Move(0, 11)).delta.frame.select("a", FROM).rows()
    [(1, 5), (1, 10)]
    """

    operator_version: ClassVar[int] = 1
    points: Periodic

    def traces(self) -> tuple[Trace, ...]:
        """The relation, and the first change."""
        return (Trace("key", (_ALL,)), Trace("time"))

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The relation at each point of the move."""
        held, first = traces
        changes = delta.consolidate().frame.filter(pl.col(FROM) > BEGINNING)
        if not first.runs and changes.height:
            first = first.append(Delta(changes.sort(FROM)[:1]), move.start)
        start = max(first.runs[0].frame[FROM].item() if first.runs else move.end, move.start)
        streamed = (
            self._streamed(delta, held, Move(start, move.end)) if start < move.end else Delta(delta.frame.clear())
        )
        keyed = Delta(delta.frame.select(*delta.columns, pl.lit(0, pl.Int8).alias(_ALL), *RESERVED))
        return Step(streamed, (held.append(keyed, move.end), first))

    def _streamed(self, delta: Delta, held: Trace, move: Move) -> Delta:
        """The relation at each point of the move, from stored elements and changes; each is seen from the first point
        at or after its start.

        Only points at which the relation has rows are computed: with a point every millisecond, most have none.
        """
        before = held.delta().frame
        frames = [before.select(delta.frame.columns), delta.frame] if before.width else [delta.frame]
        both = pl.concat(frames)
        seen = self.points.next_points(np.maximum(both[FROM].to_numpy(), move.start))
        net = Delta(both.with_columns(pl.Series(FROM, seen, pl.Int64))).consolidate().frame
        columns = delta.columns
        ordered = net.with_row_index(_ROW).with_columns(pl.col(_ROW).min().over(columns)).sort(_ROW, FROM)
        lasting = ordered.filter(pl.col(FROM) < move.end).with_columns(
            pl.col(WEIGHT).cum_sum().over(_ROW),
            pl.col(FROM).shift(-1).over(_ROW).fill_null(move.end).alias(_NEXT),
        )
        return _repeated(lasting.filter(pl.col(WEIGHT) > 0), self.points, delta.frame.columns)


def _repeated(lasting: pl.DataFrame, points: Periodic, columns: list[str]) -> Delta:
    """Each row once for each point from its `__from` to before its `__next`."""
    starts = points.numbers(lasting[FROM].to_numpy())
    counts = points.numbers(lasting[_NEXT].to_numpy()) - starts
    # Points are numbered; starts [4 7] and counts [2 1] give the numbers [4 5 | 7].
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    instants = points.numbered(np.repeat(starts, counts) + offsets)
    rows = lasting[np.repeat(np.arange(lasting.height), counts)]
    stamped = rows.with_columns(
        pl.Series(FROM, instants, pl.Int64),
        pl.lit(FOREVER, pl.Int64).alias(TO),
        pl.lit(0, pl.Int64).alias(ORDER),
    )
    return Delta(stamped.select(columns))
