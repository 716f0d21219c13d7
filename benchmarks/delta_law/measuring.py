"""Measures the times of a flow's steps: the median, and the mean over all steps until the largest runs were merged."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.delta_law.flow import Flow, Input, Subject, Traces, runs_of, state_rows
from operators.core.run import Run

WARM_UP = 5
#: The number of steps for the median, and the least number for the mean.
FEWEST = 64


@dataclass(frozen=True, slots=True)
class Point:
    """Costs in ms at one size of the state. `merged` says that the mean includes a merge of the largest runs."""

    size: int
    rows: int
    median_ms: float
    mean_ms: float
    worst_ms: float
    cpu_ms: float
    cpu_mean_ms: float
    cpu_worst_ms: float
    steps: int
    effect: float
    merged: bool


def measure(subject: Subject, size: int) -> Point:
    """Loads the subject, and times changes until its largest runs have been rewritten."""
    traces = loaded(subject)
    rows = state_rows(runs_of(traces))
    for _ in range(WARM_UP):
        _, traces = subject.flow.step(subject.change(), traces)
    return _stepped(subject, traces, size, rows)


def loaded(subject: Subject) -> Traces:
    """The state after the load."""
    traces = subject.flow.begin()
    for given in subject.load():
        _, traces = subject.flow.step(given, traces)
    gc.collect()
    return traces


def _stepped(subject: Subject, traces: Traces, size: int, rows: int) -> Point:
    flow, cycle = subject.flow, Cycle(traces)
    wall: list[float] = []
    cpu: list[float] = []
    effect = 0
    while len(wall) < FEWEST or not cycle.over:
        given = subject.change()
        milliseconds, cpu_milliseconds, out, traces = _timed(flow, given, traces)
        wall.append(milliseconds)
        cpu.append(cpu_milliseconds)
        effect += out
        cycle.see(traces)
    steps = len(wall)
    medians = float(np.median(wall[:FEWEST])), float(np.median(cpu[:FEWEST]))
    walls, cpus = (
        (median, float(np.mean(times)), max(times)) for median, times in zip(medians, (wall, cpu), strict=True)
    )
    return Point(size, rows, *walls, *cpus, steps, effect / steps, cycle.merged)


@dataclass(slots=True)
class Cycle:
    """Counts steps until all runs that were the largest at first have been merged away; or until the younger runs have
    not grown for many steps, because changes cancel earlier ones."""

    before: Traces
    merged: bool = False
    largest: int = 0
    steps: int = 0
    quiet: int = 0

    @property
    def over(self) -> bool:
        """Whether all kinds of merges have been seen."""
        return self.merged or self.quiet >= max(FEWEST, self.steps // 2)

    def see(self, traces: Traces) -> None:
        """Records the state after the next step."""
        eldest, runs = _eldest(self.before), [run for listed in runs_of(traces) for run in listed]
        self.merged = self.merged or not eldest & set(map(_end, runs))
        young = sum(run.height for run in runs if _end(run) not in eldest)
        self.steps += 1
        self.quiet = 0 if young > self.largest else self.quiet + 1
        self.largest = max(self.largest, young)


def _timed(flow: Flow, given: Input, traces: Traces) -> tuple[float, float, int, Traces]:
    start, cpu = time.perf_counter(), time.process_time()
    out, after = flow.step(given, traces)
    return (time.perf_counter() - start) * 1_000, (time.process_time() - cpu) * 1_000, out, after


def _eldest(traces: Traces) -> set[int]:
    """The ends of the runs that have more than half the rows of the largest run."""
    runs = [run for listed in runs_of(traces) for run in listed]
    largest = max((run.height for run in runs), default=0)
    return {_end(run) for run in runs if 2 * run.height > largest}


def _end(run: Run) -> int:
    """The memory address of the end of a run. It identifies the run, because the rest of it has the same end during a
    merge."""
    return int(run.sorted_column.__array_interface__["data"][0]) + run.sorted_column.nbytes
