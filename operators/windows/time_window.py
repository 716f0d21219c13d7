"""TimeWindow: `[Range T Slide L]`, the rows of the last instants of a stream (CQL section 6.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FOREVER, FROM, TO, WEIGHT, Delta
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.sync.sync_points import Periodic
from operators.sync.synchronise import PeriodicSync


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """window(S) at τ = the rows of S with `p - length ≤ from ≤ p`, where p is the last multiple of `slide` ≤ τ.

    The range includes both ends, so `length` 0 is CQL's `[Now]`; None keeps rows for ever. Stateless: each row gets an
    end, and its start and end are rounded up to the slide. The input is insertions that are never retracted.

    >>> rows = Delta.of([("+", {"a": 1}, 3)])
    >>> TimeWindow(4).step(rows, (), Move(0, 9)).delta.frame.select(FROM, TO).rows()
    [(3, 8)]
    >>> TimeWindow(4, 5).step(rows, (), Move(0, 9)).delta.frame.select(FROM, TO).rows()
    [(5, 10)]
    """

    operator_version: ClassVar[int] = 1
    length: int | None
    slide: int = 1

    def traces(self) -> tuple[Trace, ...]:
        """(): the operator is stateless."""
        return ()

    def reads(self, wanted: frozenset[str]) -> frozenset[str]:
        """Only the wanted columns."""
        return wanted

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The rows with their ends."""
        assert (delta.frame[TO] == FOREVER).all() and (delta.frame[WEIGHT] > 0).all(), "the input is a stream"
        bounded = delta if self.length is None else Delta(delta.frame.with_columns(_end(self.length).alias(TO)))
        return Step(bounded) if self.slide == 1 else PeriodicSync(Periodic(self.slide)).step(bounded, (), move)


def _end(length: int) -> pl.Expr:
    """`from + length + 1`, at most FOREVER."""
    span = min(length, FOREVER - 1) + 1
    return pl.min_horizontal(FROM, pl.lit(FOREVER - span, pl.Int64)) + span
