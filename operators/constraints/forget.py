"""Forget: wraps an operator and drops from its state the rows that no element to come can ask for."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

import polars as pl

from operators.constraints.living_values import VALUE
from operators.constraints.lowest_values import LOW
from operators.core.delta import FROM, Delta
from operators.core.operator import Operator, State, Step
from operators.core.run import RowTest, Run


class Sweep(NamedTuple):
    """Drops from trace number `trace` the rows whose column is below the lowest value that input number `told` says."""

    trace: int
    column: str
    told: int

    def unreachable(self, mark: Delta) -> RowTest:
        """The rows to drop by a mark of the input: the lowest value only rises."""
        low = cast(int, mark.frame[LOW].max())
        return lambda frame: (frame[self.column].to_physical().cast(pl.Int64) < low).fill_null(False)


class Outlived(NamedTuple):
    """Drops from trace number `trace` the rows whose column has a value that is not among those which may still come,
    as input number `told` says. All values of the column have passed the operator that knows this."""

    trace: int
    column: str
    told: int

    def unreachable(self, mark: Delta) -> RowTest:
        """The rows to drop by marks of the input, of which the last one holds."""
        last = mark.frame.filter(pl.col(FROM) == pl.col(FROM).max())[VALUE]
        return lambda frame: (~frame[self.column].is_in(last.implode())).fill_null(False)


@dataclass(frozen=True, slots=True)
class Forget:
    """Has the output of `operator`; its inputs are followed by one or more outputs of `Lowest` and `Living`.

    The promise is that no element at or after the frontier asks for a row of a trace whose value is below the lowest
    one, or not alive; this holds for columns that are compared by equality or are grouped by. Rows with a NULL stay.
    A run is rewritten when a sample says that half of it is to be dropped, so that a step costs O(log |state|) more,
    and the state is at most a few times the size of what is needed.

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
        """The traces of the operator."""
        return cast(Operator, self.operator).traces()

    def step(self, *given: Any) -> Step:
        """The operator's step, after which unreachable rows are dropped from its state."""
        *inputs, traces, move = given
        step: Step = self.operator.step(*inputs[: self.own], traces, move)
        after = list(step.traces)
        for sweep in self.sweeps:
            if len(mark := inputs[sweep.told]):
                after[sweep.trace] = drop_unreachable(after[sweep.trace], sweep.column, sweep.unreachable(mark))
        return replace(step, traces=tuple(after))


def drop_unreachable(state: State, column: str, unreachable: RowTest) -> State:
    """Drops `unreachable` rows from runs of which they are at least half; returns the same object if there are none."""
    runs = tuple(kept for run in state.runs if (kept := _kept(run, column, unreachable)).height)
    same = len(runs) == len(state.runs) and all(map(operator.is_, runs, state.runs))
    return state if same else replace(state, runs=runs)  # type: ignore[type-var]


def _kept(run: Run, column: str, unreachable: RowTest) -> Run:
    return run.without(unreachable) if column in run.frame.columns and run.mostly(unreachable) else run
