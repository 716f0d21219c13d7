"""State by name: which stored runs make up the traces of a lane on one target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import polars as pl

from dsms.physical.lane import Lane
from operators.core.operator import State
from operators.core.run import Run

T = TypeVar("T")
#: For each trace of a vertex, the names of its runs from the eldest on.
TraceNames = list[list[str]]
#: The names of the traces of each vertex that has begun, by the vertex' key.
Names = dict[str, TraceNames]


def restore(lane: Lane, stage: int, names: Names, read: Callable[[str], pl.DataFrame]) -> dict[int, tuple[State, ...]]:
    """The traces of a stage's vertices that the names stand for."""
    flow = lane.flow
    return {
        at: tuple(
            _restored(trace, listed, read)
            for trace, listed in zip(flow.vertices[at].operator.traces(), names[flow.keys[at]], strict=True)
        )
        for at in flow.by_stage.get(stage, ())
        if flow.keys[at] in names
    }


def _restored(trace: State, names: list[str], read: Callable[[str], pl.DataFrame]) -> State:
    restored: State = replace(trace, runs=tuple(Run(read(name), trace.arrangement, name) for name in names))  # type: ignore[type-var]
    return restored


def name_runs(lane: Lane, state: Mapping[int, tuple[State, ...]], prefix: str) -> tuple[Names, dict[str, pl.DataFrame]]:
    """The names of all runs of some vertices, and the runs that have none yet under their new names."""
    fresh: dict[str, pl.DataFrame] = {}
    names = {
        lane.flow.keys[vertex]: [
            [_name(run, f"{prefix}/{vertex}.{index}.{at}", fresh) for at, run in enumerate(trace.runs)]
            for index, trace in enumerate(traces)
        ]
        for vertex, traces in state.items()
        if traces
    }
    return names, fresh


def _name(run: Run, name: str, fresh: dict[str, pl.DataFrame]) -> str:
    if run.name is not None:
        return run.name
    fresh[name] = run.frame
    return name


def merge_traces(
    one: Mapping[str, Sequence[T]],
    other: Mapping[str, Sequence[T]],
    members: Mapping[str, tuple[bool, ...]],
    beside: Callable[[T, T], T],
) -> dict[str, list[T]]:
    """The traces of two lanes that stand at one place, by vertex: what both hold is equal, but for the traces in which
    each has its own members of a family; these are put side by side.

    >>> held, more = {"v": [["a"], ["c"]]}, {"v": [["b"], ["d"]], "w": [["e"]]}
    >>> merge_traces(held, more, {"v": (True, False)}, list.__add__)
    {'v': [['a', 'b'], ['c']], 'w': [['e']]}
    """
    found = {key: list(traces) for key, traces in {**other, **one}.items()}
    for key in one.keys() & other.keys() & members.keys():
        pairs = zip(one[key], other[key], members[key], strict=True)
        found[key] = [beside(mine, theirs) if apart else mine for mine, theirs, apart in pairs]
    return found


def all_names(names: Names) -> Iterator[str]:
    """Every run named."""
    return (name for traces in names.values() for listed in traces for name in listed)
