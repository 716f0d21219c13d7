"""Lowest: a lower bound of a column's future values, from the marks (lower bounds) of its sources' partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta, partition_of
from operators.core.operator import Move, Step
from operators.state.accumulators import Accumulators

#: The column of the result.
LOWER_BOUND = "__low"
_PARTITION = "__partition"


class Term(NamedTuple):
    """A column of a source, the number of the source's partitions, and the offset that is added to the column."""

    column: str
    partitions: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Lowest:
    """low(τ) = the minimum, over all terms and their partitions, of the greatest mark up to τ plus the term's offset;
    undefined until every partition has a mark.

    Each input carries the marks of a term: from a mark's instant on, no element of its partition has a lower value in
    the column. So no element at or after the frontier has a value below `low`. The output is an element with the new
    `low` whenever it rises; the previous value is not retracted. State: the greatest mark of every partition.

    >>> marks = Delta.of([("+", {"c": 5}, 3), ("+", {"c": 7}, 4)])
    >>> lowest = Lowest((Term("c", 1, offset=-1),))
    >>> lowest.step(marks, lowest.traces(), Move(0, 9)).delta.frame[LOWER_BOUND].to_list()
    [6]
    """

    operator_version: ClassVar[int] = 1
    terms: tuple[Term, ...]

    def traces(self) -> tuple[Accumulators, ...]:
        """For each term, the greatest mark by partition."""
        return tuple(Accumulators((_PARTITION,)) for _ in self.terms)

    def step(self, *arguments: object) -> Step:
        """The lowest value, if it has risen. The arguments are the inputs, the traces and the move."""
        *marks, traces, move = arguments
        assert isinstance(move, Move) and isinstance(traces, tuple)
        deltas = [mark for mark in marks if isinstance(mark, Delta)]
        after = tuple(map(_raised, self.terms, deltas, traces))
        before, after_low = self._low(traces), self._low(after)
        at = move.end - 1 if after_low is not None and after_low != before else None
        return Step(_risen(after_low, at), after)

    def _low(self, traces: tuple[Accumulators, ...]) -> int | None:
        """The least value over all partitions of all terms; None if a partition has no mark."""
        lows = [_least(term, trace) for term, trace in zip(self.terms, traces, strict=True)]
        return None if None in lows else min(low for low in lows if low is not None)


def _raised(term: Term, marks: Delta, trace: Accumulators) -> Accumulators:
    value = pl.col(term.column).alias(LOWER_BOUND)
    fresh = marks.frame.select(partition_of().alias(_PARTITION), value).drop_nulls()
    if not fresh.height:
        return trace
    known = trace.lookup(fresh.select(_PARTITION).unique())
    marks_so_far = pl.concat([fresh, known.select(fresh.columns)]) if known.height else fresh
    greatest = marks_so_far.group_by(_PARTITION).agg(pl.col(LOWER_BOUND).max())
    return trace.upsert(greatest, pl.repeat(False, greatest.height, eager=True), 0)


def _least(term: Term, trace: Accumulators) -> int | None:
    partitions = pl.DataFrame({_PARTITION: range(term.partitions)}, schema={_PARTITION: pl.Int64})
    greatest = trace.lookup(partitions)
    if greatest.height < term.partitions:
        return None
    least = greatest[LOWER_BOUND].min()
    return int(least) + term.offset if isinstance(least, int) else None


def _risen(low: int | None, at: int | None) -> Delta:
    elements = {LOWER_BOUND: low, FROM: at, TO: FOREVER, WEIGHT: 1, ORDER: 0}
    frame = pl.DataFrame([elements], schema=dict.fromkeys(elements, pl.Int64))
    return Delta(frame if at is not None else frame.clear())
