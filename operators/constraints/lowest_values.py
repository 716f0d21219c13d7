"""Lowest: how far a column of a collection has come, from what the partitions of its sources told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta, partition_of
from operators.core.operator import Move, Step
from operators.state.accumulators import Accumulators

#: The column of the result.
LOW = "__low"
_PARTITION = "__partition"


class Term(NamedTuple):
    """A column of a source with so many partitions, and what is to be added to it."""

    column: str
    partitions: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Lowest:
    """low(τ) = the least, over the terms and the partitions of each, of the greatest value told up to τ, plus the
    term's offset; nothing as long as a partition has told nothing.

    Every input has the marks of one term: from its instant on, no element of its partition has a lower value in the
    column. So no element at or after the frontier has a value below `low`. An element says that `low` has risen; what
    it was is not taken back. State: the greatest value of every partition.

    >>> told = Delta.of([("+", {"c": 5}, 3), ("+", {"c": 7}, 4)])
    >>> lowest = Lowest((Term("c", 1, offset=-1),))
    >>> lowest.step(told, lowest.traces(), Move(0, 9)).delta.frame[LOW].to_list()
    [6]
    """

    operator_version: ClassVar[int] = 1
    terms: tuple[Term, ...]

    def traces(self) -> tuple[Accumulators, ...]:
        """For each term the greatest value by partition."""
        return tuple(Accumulators((_PARTITION,)) for _ in self.terms)

    def step(self, *given: object) -> Step:
        """The new lowest value, where it has risen: the inputs, the traces and the move, as of every operator."""
        *marks, traces, move = given
        assert isinstance(move, Move) and isinstance(traces, tuple)
        told = [one for one in marks if isinstance(one, Delta)]
        after = tuple(map(_told, self.terms, told, traces))
        was, now = self._low(traces), self._low(after)
        at = move.end - 1 if now is not None and now != was else None
        return Step(_risen(now, at), after)

    def _low(self, traces: tuple[Accumulators, ...]) -> int | None:
        """The least value of all partitions of all terms; None where one is not known."""
        found = [_least(term, trace) for term, trace in zip(self.terms, traces, strict=True)]
        return None if None in found else min(one for one in found if one is not None)


def _told(term: Term, marks: Delta, trace: Accumulators) -> Accumulators:
    value = pl.col(term.column).alias(LOW)
    fresh = marks.frame.select(partition_of().alias(_PARTITION), value).drop_nulls()
    if not fresh.height:
        return trace
    known = trace.lookup(fresh.select(_PARTITION).unique())
    every = pl.concat([fresh, known.select(fresh.columns)]) if known.height else fresh
    greatest = every.group_by(_PARTITION).agg(pl.col(LOW).max())
    return trace.upsert(greatest, pl.repeat(False, greatest.height, eager=True), 0)


def _least(term: Term, trace: Accumulators) -> int | None:
    every = pl.DataFrame({_PARTITION: range(term.partitions)}, schema={_PARTITION: pl.Int64})
    found = trace.lookup(every)
    if found.height < term.partitions:
        return None
    least = found[LOW].min()
    return int(least) + term.offset if isinstance(least, int) else None


def _risen(low: int | None, at: int | None) -> Delta:
    elements = {LOW: low, FROM: at, TO: FOREVER, WEIGHT: 1, ORDER: 0}
    frame = pl.DataFrame([elements], schema=dict.fromkeys(elements, pl.Int64))
    return Delta(frame if at is not None else frame.clear())
