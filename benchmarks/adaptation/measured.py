"""Runs a view over Poisson streams to its steady state. Returns figures of its operators, expected by the cost model
and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from dsms.introspection.statistics import statistics_of
from dsms.planner.physical.cost.estimate import estimated
from dsms.testing.local_session import LocalSession

#: The length of a run and of a batch, in instants.
SPAN, BATCH = 40_000, 500
_VALUES = 100


@dataclass(frozen=True)
class Vertex:
    """The rows out per instant and the rows of state of an operator, each as (expected, measured). The measured state
    is the mean over the second half of the run."""

    operator: str
    rows: tuple[float, float]
    state: tuple[float, float]


@dataclass(frozen=True)
class Run:
    """A run of a view: its operators, the busy seconds of all of them, and the changes that were published."""

    vertices: tuple[Vertex, ...]
    busy: float
    results: tuple[tuple[str, Mapping[str, object], int], ...]

    def of(self, operator: str) -> Vertex:
        """The last operator of a kind."""
        return [vertex for vertex in self.vertices if vertex.operator == operator][-1]

    @property
    def state(self) -> tuple[float, float]:
        """The rows of state of all operators."""
        expected, measured = zip(*(vertex.state for vertex in self.vertices), strict=True)
        return sum(expected), sum(measured)


def arrivals(gap: float, keys: int, seed: int, span: int = SPAN) -> list[dict[str, object]]:
    """Records at the times of a Poisson process, with a uniform key `k` and a uniform value `v`."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(gap, int(2 * span / gap))).astype(int)
    times = times[times < span]
    columns = rng.integers(keys, size=len(times)), rng.integers(_VALUES, size=len(times)), times
    return [{"k": int(k), "v": int(v), "ts": int(ts)} for k, v, ts in zip(*columns, strict=True)]


def session(*streams: str) -> LocalSession:
    """A session with append-only streams of these names."""
    made = LocalSession()
    for name in streams:
        made.execute(f"REGISTER SOURCE {name}s (k INT, v INT) FROM {name}s; CREATE STREAM {name} OVER {name}s KEY NULL")
    return made


def run(sql: str, logs: Mapping[str, list[dict[str, object]]], span: int = SPAN) -> Run:
    """Runs a view over streams, batch by batch."""
    made = session(*logs)
    made.execute(f"CREATE VIEW Q AS {sql}")
    states: list[tuple[Vertex, ...]] = []
    for at in range(0, span, BATCH):
        for name, records in logs.items():
            made.push(f"{name}s", [record for record in records if at <= _time(record) < at + BATCH])
        made.advance(at + BATCH)
        if at >= span // 2:
            states.append(tuple(_vertices(made, at + BATCH)))
    vertices = tuple(_steady(vertex) for vertex in zip(*states, strict=True))
    return Run(vertices, _busy(made), tuple(made.changes("Q")))


def _steady(moments: Sequence[Vertex]) -> Vertex:
    """The last figures of an operator, with the mean of its state."""
    kept = fmean(moment.state[1] for moment in moments)
    return replace(moments[-1], state=(moments[-1].state[0], kept))


def _vertices(made: LocalSession, span: int) -> Iterator[Vertex]:
    statistics, metrics = statistics_of(made.reports()), made.runtime.metrics
    for lane_id, lane in made.runtime.revision.lanes.items():
        if "Q" not in [output.name for output in lane.outputs]:
            continue
        for at, (vertex, expected) in enumerate(zip(lane.flow.vertices, estimated(lane.flow, statistics), strict=True)):
            done = metrics.of(lane_id, lane.flow.keys[at])
            if expected is not None and vertex.operator is not None:
                rows, state = (expected.flow.rows, done.rows_out / span), (expected.state_rows, done.state_rows)
                yield Vertex(vertex.kind, rows, state)


def _busy(made: LocalSession) -> float:
    return sum(operator.busy_seconds for report in made.reports() for operator in report.operators)


def _time(record: Mapping[str, object]) -> int:
    return int(str(record["ts"]))
