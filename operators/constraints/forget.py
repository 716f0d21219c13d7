"""Forget: wraps an operator, and drops rows from its state that no later element can need."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import polars as pl

from operators.constraints.living_values import VALUE
from operators.constraints.lowest_values import LOWER_BOUND
from operators.core.delta import FROM, Delta
from operators.core.operator import Operator, State, Step
from operators.core.run import RowTest, Run


class Sweep(NamedTuple):
    """Drops from trace number `trace` the rows whose `column` is below the lowest value that can still come. Input
    number `input` sends that value."""

    trace: int
    column: str
    input: int

    def unreachable(self, mark: Delta) -> RowTest:
        """A test that selects the rows to drop. It uses the greatest mark, because the lowest value only rises."""
        low = cast(int, mark.frame[LOWER_BOUND].max())
        return lambda frame: (frame[self.column].to_physical().cast(pl.Int64) < low).fill_null(False)


class Outlived(NamedTuple):
    """Drops from trace number `trace` the rows whose `column` has a value that cannot come again. Input number `input`
    sends the values that can; its operator has seen all values of the column."""

    trace: int
    column: str
    input: int

    def unreachable(self, mark: Delta) -> RowTest:
        """A test that selects the rows whose value is not in the latest list of living values."""
        last = mark.frame.filter(pl.col(FROM) == pl.col(FROM).max())[VALUE]
        return lambda frame: (~frame[self.column].is_in(last.implode())).fill_null(False)


@dataclass(frozen=True, slots=True)
class Forget:
    """Returns the output of `operator`. The inputs are those of `operator`, followed by one or more outputs of `Lowest`
    and `Living`.

    The planner must ensure that no element at or after the frontier needs a row whose value is below the lowest one or
    no longer alive. This holds for columns that are compared by equality or grouped by. Rows with a NULL stay. A run is
    rewritten when a sample shows that at least half of its rows can be dropped. A step therefore costs O(log |state|)
    more, and the state is at most a few times as large as the rows that are needed.

    >>> from operators.relational.distinct import Distinct
    >>> from operators.core.operator import Move
    >>> forget = Forget(Distinct(), (Sweep(0, "a", 1),))
    >>> rows = Delta.of([("+", {"a": a}, 3) for a in (1, 2, 3)])
    >>> low = Delta(pl.DataFrame({LOWER_BOUND: [3], "__from": [3], "__to": [9], "__weight": [1], "__order": [0]}))
    >>> step = forget.step(rows, low, forget.traces(), Move(0, 9))
    >>> len(step.delta), [run.frame["a"].to_list() for run in step.traces[0].runs]
    (3, [[3]])
    """

    operator_version: ClassVar[int] = 1
    operator: Any
    sweeps: tuple[Sweep | Outlived, ...]

    @property
    def own(self) -> int:
        """How many inputs belong to the operator itself."""
        return min(sweep.input for sweep in self.sweeps)

    def traces(self) -> tuple[State, ...]:
        """The traces of the operator."""
        return cast(Operator, self.operator).traces()

    def step(self, *arguments: Any) -> Step:
        """The operator's step, after which unreachable rows are dropped from its state."""
        *inputs, traces, move = arguments
        step: Step = self.operator.step(*inputs[: self.own], traces, move)
        after = list(step.traces)
        for sweep in self.sweeps:
            if len(mark := inputs[sweep.input]):
                after[sweep.trace] = drop_unreachable(after[sweep.trace], sweep.column, sweep.unreachable(mark))
        return replace(step, traces=tuple(after))


def drop_unreachable(state: State, column: str, unreachable: RowTest) -> State:
    """Drops the `unreachable` rows from each run in which at least half of a sample is unreachable; returns the same
    object if there is no such run."""
    runs = tuple(kept for run in state.runs if (kept := _kept(run, column, unreachable)).height)
    same = len(runs) == len(state.runs) and all(map(operator.is_, runs, state.runs))
    return state if same else replace(state, runs=runs)  # type: ignore[type-var]


def _kept(run: Run, column: str, unreachable: RowTest) -> Run:
    return run.without(unreachable) if column in run.frame.columns and run.mostly(unreachable) else run
