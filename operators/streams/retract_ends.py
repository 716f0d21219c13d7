"""RetractEnds: turns a collection into changes, in which a retraction replaces the end of an element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FOREVER, FROM, TO, Delta, union_all
from operators.core.operator import Move, Step
from operators.state.trace import Trace
from operators.streams.reorder import Reorder


@dataclass(frozen=True, slots=True)
class RetractEnds:
    """The identity on collections: (row, [from, to), w) = (row, [from, ∞), w) + (row, [to, ∞), -w).

    Each of the two elements is released in the step whose move covers its start; elements may arrive before they start.
    A retraction has the order of its element. Retractions of equal rows at the same instant may become one element with
    the greatest order, so the state of a sliding window holds the distinct rows of each slide, not all rows.

    >>> window = Delta.of([("+", {"a": 1}, 3)]).frame.with_columns(pl.lit(7, pl.Int64).alias("__to"))
    >>> step = RetractEnds().step(Delta(window), RetractEnds().traces(), Move(0, 9))
    >>> step.delta.frame.select("a", "__from", "__weight").rows()
    [(1, 3, 1), (1, 7, -1)]
    """

    operator_version: ClassVar[int] = 1

    def traces(self) -> tuple[Trace, ...]:
        """A trace by time of the starts and ends at or above the frontier."""
        return (Trace("time", sums_retractions=True),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The starts and ends at the instants of the move."""
        return Reorder().step(starts_and_ends(delta), traces, move)


def starts_and_ends(delta: Delta) -> Delta:
    """Each element as changes: its weight at `from`, and the opposite weight at a finite `to`."""
    if not len(delta) or delta.frame[TO].min() == FOREVER:
        return delta
    ends = delta.frame.filter(pl.col(TO) < FOREVER)
    starts = Delta(delta.frame.with_columns(pl.lit(FOREVER, pl.Int64).alias(TO)))
    swapped = ends.with_columns(pl.col(TO).alias(FROM), pl.lit(FOREVER, pl.Int64).alias(TO))
    return union_all([starts, Delta(swapped).negate()])
