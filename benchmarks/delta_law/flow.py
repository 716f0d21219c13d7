"""Operators one after another, driven as the executor does: a change and a move in, state taken and given back."""

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
    """What one step is fed with: a delta for each input, and the move."""

    deltas: tuple[Delta, ...]
    move: Move


@dataclass(frozen=True, slots=True)
class Flow:
    """A window over each input, if any, then operators of which the first takes all inputs."""

    operators: tuple[Any, ...]
    window: TimeWindow | None = None

    def begin(self) -> Traces:
        """The empty states."""
        return tuple(operator.traces() for operator in self.operators)

    def step(self, given: Input, traces: Traces) -> tuple[int, Traces]:
        """How many elements come out, and the states after it."""
        deltas = given.deltas
        if self.window is not None:
            deltas = tuple(self.window.step(delta, (), given.move).delta for delta in deltas)
        first = self.operators[0].step(*deltas, traces[0], given.move)
        steps = [first, *run(self.operators[1:], first.delta, traces[1:], given.move)]
        return len(steps[-1].delta), tuple(step.traces for step in steps)


class Subject(Protocol):
    """What is measured: a flow, the load that fills its state, and changes of one size and shape."""

    @property
    def flow(self) -> Flow:
        """The operators."""
        ...

    def load(self) -> Iterator[Input]:
        """Fills the state, in a few large steps."""
        ...

    def change(self) -> Input:
        """The next change."""
        ...


def runs_of(traces: Traces) -> list[tuple[Run, ...]]:
    """The runs of every state."""
    return [state.runs for states in traces for state in states]


def state_bytes(traces: Traces) -> int:
    """The size of all runs."""
    return sum(int(run.frame.estimated_size()) for runs in runs_of(traces) for run in runs)


def state_rows(states: Sequence[tuple[Run, ...]]) -> int:
    """How many rows all runs hold."""
    return sum(run.height for runs in states for run in runs)
