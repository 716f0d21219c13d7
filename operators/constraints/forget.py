"""Forget: an operator whose state forgets the rows that no element to come can ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import polars as pl

from operators.constraints.living_values import VALUE
from operators.constraints.lowest_values import LOW
from operators.core.delta import FROM, Delta
from operators.core.operator import Operator, State, Step
from operators.core.run import Run

#: Which rows of a frame go.
Gone = Callable[[pl.DataFrame], pl.Series]


class Sweep(NamedTuple):
    """Of a trace, by number, the rows go whose column is below what an input, by number, says."""

    trace: int
    column: str
    told: int

    def gone(self, told: Delta) -> Gone:
        """Which rows of a frame go by what was told: the lowest value only rises."""
        low = cast(int, told.frame[LOW].max())
        return lambda frame: (frame[self.column].to_physical().cast(pl.Int64) < low).fill_null(False)


class Outlived(NamedTuple):
    """Of a trace, by number, the rows go whose column has a value that is not among those which an input, by number,
    says may still come. All values of the column were seen where that is known."""

    trace: int
    column: str
    told: int

    def gone(self, told: Delta) -> Gone:
        """Which rows of a frame go by what was told: what was told last is so."""
        last = told.frame.filter(pl.col(FROM) == pl.col(FROM).max())[VALUE]
        return lambda frame: (~frame[self.column].is_in(last.implode())).fill_null(False)


@dataclass(frozen=True, slots=True)
class Forget:
    """The operator, with the output that it has; its inputs are followed by one or more of `Lowest` and `Living`.

    The promise is that a row of a trace with a value below the lowest one, or that does not live, is not asked for by
    any element at or after the frontier: values of columns that are compared by equality, or that are held apart by
    them. A NULL stays. Runs are rewritten when a sample says that half of them goes, so that a step costs
    O(log |state|) more, and the state is at most a few times what is still needed.

    >>> from operators.relational.distinct import Distinct
    >>> from operators.core.operator import Move
    >>> forget = Forget(Distinct(), (Sweep(0, "a", 1),))
    >>> rows = Delta.of([("+", {"a": a}, 3) for a in (1, 2, 3)])
    >>> low = Delta(pl.DataFrame({LOW: [3], "__from": [3], "__to": [9], "__weight": [1], "__order": [0]}))
    >>> step = forget.step(rows, low, forget.traces(), Move(0, 9))
    >>> len(step.delta), [run.frame["a"].to_list() for run in step.traces[0].runs]
    (3, [[3]])
    """

    operator_version: ClassVar[int] = 1
    operator: Any
    sweeps: tuple[Sweep | Outlived, ...]

    @property
    def own(self) -> int:
        """How many inputs are the operator's own."""
        return min(sweep.told for sweep in self.sweeps)

    def traces(self) -> tuple[State, ...]:
        """Those of the operator."""
        return cast(Operator, self.operator).traces()

    def step(self, *given: Any) -> Step:
        """The operator's step; then what is below goes from its state."""
        *inputs, traces, move = given
        step: Step = self.operator.step(*inputs[: self.own], traces, move)
        after = list(step.traces)
        for sweep in self.sweeps:
            if len(told := inputs[sweep.told]):
                after[sweep.trace] = swept(after[sweep.trace], sweep.column, sweep.gone(told))
        return replace(step, traces=tuple(after))


def swept(state: State, column: str, gone: Gone) -> State:
    """The state without rows that go, where they are the half of a run; the same object where nothing goes."""
    runs = tuple(found for run in state.runs if (found := _kept(run, column, gone)).height)
    same = len(runs) == len(state.runs) and all(map(_is, runs, state.runs))
    return state if same else replace(state, runs=runs)  # type: ignore[type-var]


def _is(one: Run, other: Run) -> bool:
    return one is other


def _kept(run: Run, column: str, gone: Gone) -> Run:
    if column not in run.frame.columns or 2 * int(gone(run.sample).sum()) < run.sample.height:
        return run
    return Run(run.frame.filter(~gone(run.frame)), run.arrangement)
