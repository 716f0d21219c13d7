"""State by name: which stored runs make up the traces of a lane on one target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import polars as pl

from dsms.plan.lane import Lane
from dsms.stages.lane_run import State, initial_state
from operators.trace import Run, Trace

#: For each operator, for each trace, the names of its runs from the eldest on.
Names = list[list[list[str]]]


def no_names(lane: Lane) -> Names:
    """The names of the empty state."""
    return [[[] for _ in traces] for traces in initial_state(lane)]


def restore(lane: Lane, names: Names, read: Callable[[str], pl.DataFrame]) -> State:
    """The traces that the names stand for."""
    return tuple(
        tuple(_restored(trace, listed, read) for trace, listed in zip(traces, each, strict=True))
        for traces, each in zip(initial_state(lane), names, strict=True)
    )


def _restored(trace: Trace, names: list[str], read: Callable[[str], pl.DataFrame]) -> Trace:
    return replace(trace, runs=tuple(Run(read(name), trace.arrangement, name) for name in names))


def name_runs(state: State, prefix: str) -> tuple[Names, dict[str, pl.DataFrame]]:
    """The names of all runs of a state, and the runs that have none yet under their new names."""
    fresh: dict[str, pl.DataFrame] = {}
    names: Names = []
    for operator, traces in enumerate(state):
        names.append([[_name(run, f"{prefix}/{operator}.{index}.{at}", fresh) for at, run in enumerate(trace.runs)]
                      for index, trace in enumerate(traces)])  # fmt: skip
    return names, fresh


def _name(run: Run, name: str, fresh: dict[str, pl.DataFrame]) -> str:
    if run.name is not None:
        return run.name
    fresh[name] = run.frame
    return name


def all_names(names: Names) -> Iterator[str]:
    """Every run named."""
    return (name for traces in names for listed in traces for name in listed)
