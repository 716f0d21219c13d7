"""State by name: which stored runs make up the traces of a lane on one target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from dsms.plan.lane import Lane
from dsms.stages.lane_run import initial_state, on_stage
from operators.operator import State
from operators.trace import Run

#: For each trace of a vertex, the names of its runs from the eldest on.
TraceNames = list[list[str]]
#: The names of the traces of each vertex.
Names = list[TraceNames]


def no_names(lane: Lane) -> Names:
    """The names of the empty state."""
    return [[[] for _ in traces] for traces in initial_state(lane)]


def restore(
    lane: Lane, stage: int, names: Names, read: Callable[[str], pl.DataFrame]
) -> dict[int, tuple[State, ...]]:  # fmt: skip
    """The traces of a stage's vertices that the names stand for."""
    state = initial_state(lane)
    return {
        at: tuple(_restored(trace, listed, read) for trace, listed in zip(state[at], names[at], strict=True))
        for at in on_stage(lane, stage)
    }


def _restored(trace: State, names: list[str], read: Callable[[str], pl.DataFrame]) -> State:
    restored: State = replace(trace, runs=tuple(Run(read(name), trace.arrangement, name) for name in names))  # type: ignore[type-var]
    return restored


def name_runs(
    state: Mapping[int, tuple[State, ...]], prefix: str
) -> tuple[dict[int, TraceNames], dict[str, pl.DataFrame]]:  # fmt: skip
    """The names of all runs of some vertices, and the runs that have none yet under their new names."""
    fresh: dict[str, pl.DataFrame] = {}
    names = {
        vertex: [[_name(run, f"{prefix}/{vertex}.{index}.{at}", fresh) for at, run in enumerate(trace.runs)]
                 for index, trace in enumerate(traces)]
        for vertex, traces in state.items()
    }  # fmt: skip
    return names, fresh


def _name(run: Run, name: str, fresh: dict[str, pl.DataFrame]) -> str:
    if run.name is not None:
        return run.name
    fresh[name] = run.frame
    return name


def all_names(names: Names) -> Iterator[str]:
    """Every run named."""
    return (name for traces in names for listed in traces for name in listed)
