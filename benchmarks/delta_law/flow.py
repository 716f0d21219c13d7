"""A chain of operators that is driven as by the executor: each step takes a change, a move and the state, and returns
the next state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from operators.core.delta import Delta
from operators.core.operator import Move, State, run
from operators.core.run import Run
from operators.windows.time_window import TimeWindow

Traces = tuple[tuple[State, ...], ...]


@dataclass(frozen=True, slots=True)
class Input:
    """The input of one step: a delta for each input of the flow, and the move."""

    deltas: tuple[Delta, ...]
    move: Move


@dataclass(frozen=True, slots=True)
class Flow:
    """A chain of operators. The first operator takes all inputs, each through the window if there is one."""

    operators: tuple[Any, ...]
    window: TimeWindow | None = None

    def begin(self) -> Traces:
        """The empty state of each operator."""
        return tuple(operator.traces() for operator in self.operators)

    def step(self, given: Input, traces: Traces) -> tuple[int, Traces]:
        """The number of output elements, and the states after the step."""
        deltas = given.deltas
        if self.window is not None:
            deltas = tuple(self.window.step(delta, (), given.move).delta for delta in deltas)
        first = self.operators[0].step(*deltas, traces[0], given.move)
        steps = [first, *run(self.operators[1:], first.delta, traces[1:], given.move)]
        return len(steps[-1].delta), tuple(step.traces for step in steps)


class Subject(Protocol):
    """The subject of a measurement: a flow, the load that fills its state, and changes of fixed size and shape."""

    @property
    def flow(self) -> Flow:
        """The operators."""
        ...

    def load(self) -> Iterator[Input]:
        """The input that fills the state, in a few large steps."""
        ...

    def change(self) -> Input:
        """The next change."""
        ...


def runs_of(traces: Traces) -> list[tuple[Run, ...]]:
    """The runs of each trace."""
    return [state.runs for states in traces for state in states]


def state_bytes(traces: Traces) -> int:
    """The size of all runs."""
    return sum(int(run.frame.estimated_size()) for runs in runs_of(traces) for run in runs)


def state_rows(states: Sequence[tuple[Run, ...]]) -> int:
    """The number of rows in all runs."""
    return sum(run.height for runs in states for run in runs)
