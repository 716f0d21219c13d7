"""Final: delays rows until they no longer change, as EMIT FINAL requires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from operators.core.delta import FOREVER, FROM, ORDER, TO, Delta, union_all
from operators.core.operator import Move, Step
from operators.core.run import Run
from operators.state.trace import Trace


@dataclass(frozen=True)
class NetTrace(Trace):
    """A consolidated trace by time: equal rows of an instant are a single element, and weights of zero are dropped.

    >>> trace = NetTrace("time").append(Delta.of([("+", {"a": 1}, 5), ("-", {"a": 1}, 5)]), 0)
    >>> sum(run.height for run in trace.runs)
    0
    """

    def _run(self, frame: pl.DataFrame, frontier: int) -> Run:
        return Run(Delta(frame).consolidate().frame.sort(FROM), "time")


@dataclass(frozen=True, slots=True)
class Final:
    """final(A) at τ = the rows of A at τ with `bound + after ≤ τ`: the start of an element is moved to `bound + after`
    if it is earlier.

    `bound` is an integer column. Input and output are changes: elements without an end. A row that does not change
    after its bound, such as the result of a window after its end, is output once and stays. Changes that cancel before
    their bound are dropped, so the state is the rows that wait. An output element has the order 0, because the passing
    of time causes it and not a record.

    >>> counts = Delta.of([("+", {"n": 1, "end": 9}, 3), ("-", {"n": 1, "end": 9}, 5), ("+", {"n": 2, "end": 9}, 5)])
    >>> final = Final("end")
    >>> final.step(counts, final.traces(), Move(0, 10)).delta.frame.select("n", FROM).rows()
    [(2, 9)]
    """

    operator_version: ClassVar[int] = 1
    bound: str
    after: int = 0

    def traces(self) -> tuple[Trace, ...]:
        """The rows that wait for their bound."""
        return (NetTrace("time"),)

    def step(self, delta: Delta, traces: tuple[Trace, ...], move: Move) -> Step:
        """The changes that become final within the move."""
        (waiting,) = traces
        begins = pl.max_horizontal(FROM, pl.col(self.bound).cast(pl.Int64) + self.after)
        bounded = delta.frame.drop_nulls(self.bound).with_columns(begins.alias(FROM), pl.lit(0, pl.Int64).alias(ORDER))
        assert (bounded[TO] == FOREVER).all(), "the input is changes"
        due = [*waiting.between(move.start, move.end), Delta(bounded).between(move.start, move.end)]
        kept = waiting.forget(move.end).append(Delta(bounded).between(move.end, FOREVER), move.end)
        return Step(union_all(due).consolidate(), (kept,))
