"""Forget: an operator whose state forgets the rows that no element to come can ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import polars as pl

from operators.delta import Delta
from operators.lowest import LOW
from operators.operator import Operator, State, Step
from operators.trace import Run


class Sweep(NamedTuple):
    """Of a trace, by number, the rows go whose column is below what an input, by number, says."""

    trace: int
    column: str
    low: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The operator, with the output that it has; its inputs are followed by one or more of `Lowest`.

    The promise is that a row of a trace with a value below the lowest one is not asked for by any element at or after
    the frontier: values of columns that are compared by equality, or that are held apart by them. A NULL stays. Runs
    are rewritten when a sample says that half of them is below, so that a step costs O(log |state|) more, and the state
    is at most about twice what is still needed.

    >>> from operators.distinct import Distinct
    >>> from operators.operator import Move
    >>> forget = Forget(Distinct(), (Sweep(0, "a", 1),))
    >>> rows = Delta.of([("+", {"a": a}, 3) for a in (1, 2, 3)])
    >>> low = Delta(pl.DataFrame({LOW: [3], "__from": [3], "__to": [9], "__weight": [1], "__order": [0]}))
    >>> step = forget.step(rows, low, forget.traces(), Move(0, 9))
    >>> len(step.delta), [run.frame["a"].to_list() for run in step.traces[0].runs]
    (3, [[3]])
    """

    operator: Any
    sweeps: tuple[Sweep, ...]

    @property
    def own(self) -> int:
        """How many inputs are the operator's own."""
        return min(sweep.low for sweep in self.sweeps)

    def traces(self) -> tuple[State, ...]:
        """Those of the operator."""
        return cast(Operator, self.operator).traces()

    def step(self, *given: Any) -> Step:
        """The operator's step; then what is below goes from its state."""
        *inputs, traces, move = given
        step: Step = self.operator.step(*inputs[: self.own], traces, move)
        after = list(step.traces)
        for trace, column, at in self.sweeps:
            if (low := _lowest(inputs[at])) is not None:
                after[trace] = swept(after[trace], column, low)
        return replace(step, traces=tuple(after))


def _lowest(told: Delta) -> int | None:
    """The last of what was told: it only rises."""
    return cast(int | None, told.frame[LOW].max()) if len(told) else None


def swept(state: State, column: str, low: int) -> State:
    """The state without rows below, where they are the half of a run; the same object where nothing goes."""
    runs = tuple(found for run in state.runs if (found := _kept(run, column, low)).height)
    same = len(runs) == len(state.runs) and all(map(_is, runs, state.runs))
    return state if same else replace(state, runs=runs)  # type: ignore[type-var]


def _is(one: Run, other: Run) -> bool:
    return one is other


def _kept(run: Run, column: str, low: int) -> Run:
    if column not in run.frame.columns or 2 * int(_below(run.sample, column, low).sum()) < run.sample.height:
        return run
    return Run(run.frame.filter(~_below(run.frame, column, low)), run.arrangement)


def _below(frame: pl.DataFrame, column: str, low: int) -> pl.Series:
    return (frame[column].to_physical().cast(pl.Int64) < low).fill_null(False)
