"""Stored state by name: which stored runs (immutable sorted pieces) make up the traces of a lane on a target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import polars as pl

from dsms.planner.physical.lane import Lane
from operators.core.operator import State
from operators.core.run import Run

T = TypeVar("T")
_PART = re.compile(r"@([0-9]+)([+]?)$")
#: For each trace of a vertex, the names of its runs, the oldest first. While a run is being merged, its name ends with
#: "@" and the number of its first rows that are skipped, and with "+" if it is being merged into the runs before it.
TraceNames = list[list[str]]
#: The names of the traces of each vertex that has state, by the vertex's key.
Names = dict[str, TraceNames]


def restore(lane: Lane, stage: int, names: Names, read: Callable[[str], pl.DataFrame]) -> dict[int, tuple[State, ...]]:
    """The traces of a stage's vertices, read by the names of their runs."""
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
    restored: State = replace(trace, runs=tuple(_run(trace, name, read) for name in names))  # type: ignore[type-var]
    return restored


def _run(trace: State, name: str, read: Callable[[str], pl.DataFrame]) -> Run:
    stored, skipped, joining = _parsed(name)
    return Run(read(stored)[skipped:], trace.arrangement, stored, skipped, joining)


def name_runs(lane: Lane, state: Mapping[int, tuple[State, ...]], prefix: str) -> tuple[Names, dict[str, pl.DataFrame]]:
    """The names of all runs in `state`, and the new runs, by the names that they get."""
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
    if run.name is None:
        fresh[name] = run.frame
    part = f"@{run.skipped}{'+' * run.merging}" if run.skipped or run.merging else ""
    return (run.name or name) + part


def merge_traces(
    first: Mapping[str, Sequence[T]],
    second: Mapping[str, Sequence[T]],
    members: Mapping[str, tuple[bool, ...]],
    concatenate: Callable[[T, T], T],
) -> dict[str, list[T]]:
    """The traces of two lanes at equal positions, merged, by vertex key. A vertex that is in both lanes has equal
    traces in both. The exceptions are traces divided by family member, listed in `members`, which are concatenated.

    >>> first, second = {"v": [["a"], ["c"]]}, {"v": [["b"], ["c"]], "w": [["e"]]}
    >>> merge_traces(first, second, {"v": (True, False)}, list.__add__)
    {'v': [['a', 'b'], ['c']], 'w': [['e']]}
    """
    merged = {key: list(traces) for key, traces in {**second, **first}.items()}
    for key in first.keys() & second.keys() & members.keys():
        traces = zip(first[key], second[key], members[key], strict=True)
        merged[key] = [concatenate(left, right) if by_member else left for left, right, by_member in traces]
    return merged


def all_names(names: Names) -> Iterator[str]:
    """The names under which all runs are stored, without the suffixes of runs that are being merged.

    >>> list(all_names({"v": [["1/0.0.0@5+"], ["1/0.1.0"]]}))
    ['1/0.0.0', '1/0.1.0']
    """
    return (_parsed(name)[0] for traces in names.values() for listed in traces for name in listed)


def with_new_names(names: Names, new: Mapping[str, str]) -> Names:
    """The same traces, whose runs are stored under new names.

    >>> with_new_names({"v": [["1/0.0.0@5+"], []]}, {"1/0.0.0": "2/a"})
    {'v': [['2/a@5+'], []]}
    """
    return {key: [[_renamed(name, new) for name in listed] for listed in traces] for key, traces in names.items()}


def _renamed(name: str, new: Mapping[str, str]) -> str:
    stored = _parsed(name)[0]
    return new[stored] + name[len(stored) :]


def _parsed(name: str) -> tuple[str, int, bool]:
    """The name of the stored run, the number of skipped rows, and whether it is being merged into the runs before
    it."""
    if (part := _PART.search(name)) is None:
        return name, 0, False
    return name[: part.start()], int(part[1]), bool(part[2])
