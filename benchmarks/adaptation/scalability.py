"""Experiment 4 of Krämer's thesis, chapter 24: many queries, each with a window whose size has a range and a bound on
its memory. Queries are added, first one by one and then many at once."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np

from benchmarks.adaptation.experiments import Figure
from dsms.introspection.statistics import statistics_of
from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.cost.estimate import Statistics, estimated
from dsms.planner.physical.cost.flow import VertexMeasurements
from dsms.runtime.lanes.manifest import SourcePartition
from dsms.runtime.lanes.revision import running_lanes
from dsms.runtime.shedding.settings import new_settings
from dsms.runtime.shedding.window_sizes import WindowSizes
from dsms.testing.local_session import LocalSession
from operators.streams.settings import Setting
from operators.windows.ranged_window import RangedWindow

#: As in the thesis, but with a fiftieth of its 5 000 queries, a tenth of its rates, and ten times its 20 kB for a
#: query, because 20 kB are too little for a window of the least size over the rows here.
STREAMS, QUERIES, BOUND = 50, 100, 200_000
_MIN_MIN, _MAX_MIN = 1, 30
#: In minutes: the end, when a query is added, and when BURST queries are added.
END, ADDED_AT, BURST_AT, BURST = 160, range(60, 90, 6), 110, 10
_MINUTE = 60_000
#: Fractions of the queries by shape: joins of two, three and four windows, a join of two joins, an aggregate, joins of
#: one or two aggregates.
_SHAPES = {"2": 0.3, "3": 0.2, "4": 0.1, "2x2": 0.1, "agg": 0.1, "agg join": 0.1, "agg agg": 0.1}


class _Held(LocalSession):
    """A session that can execute many statements before it starts their queries."""

    holds = False

    def follow_catalog(self) -> None:
        """Runs the queries of the catalog, unless `holds` is set."""
        if not self.holds:
            super().follow_catalog()

    def all_at_once(self, statements: list[str]) -> None:
        """Executes statements, then starts their queries together."""
        self.holds = True
        for statement in statements:
            self.execute(statement)
        self.holds = False
        self.follow_catalog()


@dataclass
class Simulation:
    """Queries over Poisson streams, run minute by minute of the streams' time. The sizes of windows are decided once a
    minute."""

    seed: int = 24
    session: _Held = field(default_factory=_Held)
    sizes: WindowSizes = field(default_factory=WindowSizes)
    minute: int = 0
    settings: dict[str, dict[SourcePartition, list[Setting]]] = field(default_factory=dict)
    queries: int = 0
    #: A row for each minute.
    trace: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.rates = self.rng.uniform(2, 60, STREAMS)
        self.keys = self.rng.integers(50, 200, STREAMS)
        self.session.runtime.clock, self.session.runtime.metrics = lambda: 60.0 * self.minute, FragmentMetrics(0.0)
        self.session.runtime.settings = self.settings
        self.session.all_at_once(
            [
                f"REGISTER SOURCE T{at} (k INT, v INT) FROM t{at}; CREATE STREAM S{at} OVER T{at} KEY NULL"
                for at in range(STREAMS)
            ]
        )

    def add(self, count: int) -> None:
        """Creates queries that read the records from now on."""
        self.session.all_at_once([self._query() for _ in range(count)])

    def run_minute(self) -> None:
        """Runs the queries over the records of a minute, then decides about sizes."""
        begun = time.perf_counter()
        runtime = self.session.runtime
        for at, log in enumerate(self._logs()):
            log.records += self._records(at)
        self.minute += 1
        self._decide()
        self.session.advance(self.minute * _MINUTE)
        ran = time.perf_counter()
        self.sizes = self.sizes.after(runtime.revision, runtime.metrics, 60.0 * self.minute, {})
        parts = list(self.sizes.fractions.values())
        self.trace.append(
            {
                "minute": self.minute,
                "queries": self.queries,
                "bytes": sum(measured.state_bytes for measured in runtime.metrics.by_vertex.values()),
                "fraction": fmean(parts) if parts else 1.0,
                "seconds": ran - begun,
                "decision seconds": time.perf_counter() - ran,
            }
        )

    def errors(self) -> dict[int, list[float]]:
        """The relative errors of the expected rows of state, by the number of joins and aggregates on the path from the
        sources."""
        measured, runtime, found = (
            statistics_of(self.session.reports()).vertices,
            self.session.runtime,
            defaultdict(list),
        )
        for lane_id, lane in runtime.revision.lanes.items():
            levels: dict[int, int] = {}
            known = {
                key: measured.get(key, VertexMeasurements())._replace(fraction=self._fraction(vertex.operator))
                for key, vertex in zip(lane.flow.keys, lane.flow.vertices, strict=True)
            }
            statistics = Statistics(known)
            for at, (vertex, expected) in enumerate(
                zip(lane.flow.vertices, estimated(lane.flow, statistics), strict=True)
            ):
                keeps = vertex.kind in ("Join", "GroupBy")
                levels[at] = keeps + max((levels[feed.vertex] for feed in vertex.inputs), default=0)
                rows = runtime.metrics.of(lane_id, lane.flow.keys[at]).state_rows
                if keeps and expected is not None and rows > 100:
                    found[levels[at]].append(expected.state_rows / rows - 1)
        return found

    def _fraction(self, operator: object) -> float:
        return self.sizes.fractions.get(operator.query, 1.0) if isinstance(operator, RangedWindow) else 1.0

    def _logs(self) -> Iterator[Any]:
        for at in range(STREAMS):
            yield self.session.runtime.logs[self.session.catalog.find(f"T{at}").id]

    def _records(self, at: int) -> list[Mapping[str, object]]:
        times = np.sort(self.rng.integers(_MINUTE, size=self.rng.poisson(self.rates[at]))) + self.minute * _MINUTE
        keys, values = self.rng.integers(self.keys[at], size=len(times)), self.rng.integers(1000, size=len(times))
        rows = zip(keys.tolist(), values.tolist(), times.tolist(), strict=True)
        return [{"k": k, "v": v, "ts": ts} for k, v, ts in rows]

    def _decide(self) -> None:
        """Logs the sizes that are valid from here on, as the planner does before it plans a batch."""
        revision = self.session.runtime.revision
        positions = {lane_id: progress.places for lane_id, progress in running_lanes(revision, ()).items()}
        floors: dict[str, dict[SourcePartition, int]] = defaultdict(dict)
        fresh = new_settings(revision.lanes, positions, self.sizes.fractions, self.settings, floors)
        for query, places in fresh.items():
            for place, decision in places.items():
                self.settings.setdefault(query, {}).setdefault(place, []).append(decision.setting)

    def _query(self) -> str:
        shape = self.rng.choice(list(_SHAPES), p=list(_SHAPES.values()))
        names = self.rng.choice(STREAMS, 4, replace=False)
        windows = [f"S{name} [Range Min {_MIN_MIN} Minute Max {_MAX_MIN} Minute]" for name in names]
        groups = [f"(SELECT k, SUM(v) AS v FROM {window} GROUP BY k)" for window in windows]
        self.queries += 1
        start = f", start = {self.minute * _MINUTE}" if self.minute else ""
        return f"CREATE QUERY q{self.queries} WITH (memory = '{BOUND}'{start}) AS {_text(str(shape), windows, groups)}"


def _text(shape: str, windows: list[str], groups: list[str]) -> str:
    if shape == "agg":
        return f"SELECT STREAMED k, SUM(v) AS v FROM {windows[0]} GROUP BY k"
    if shape == "2x2":
        pair = "(SELECT a.k, a.v FROM {} a, {} b WHERE a.k = b.k)"
        left, right = pair.format(*windows[:2]), pair.format(*windows[2:])
        return f"SELECT STREAMED x.v, y.v AS w FROM {left} x, {right} y WHERE x.k = y.k"
    inputs = {"agg join": [groups[0], windows[1]], "agg agg": groups[:2]}.get(shape) or windows[: int(shape)]
    names = "abcd"[: len(inputs)]
    joined = " AND ".join(f"{one}.k = {other}.k" for one, other in zip(names, names[1:], strict=False))
    tables = ", ".join(f"{text} {name}" for text, name in zip(inputs, names, strict=True))
    return f"SELECT STREAMED a.v, {names[-1]}.v AS w FROM {tables} WHERE {joined}"


def scalability() -> Figure:
    """The memory of all queries and the mean size of their windows, minute by minute, and the errors of the cost model
    by level of plans at the end."""
    simulation = Simulation()
    simulation.add(QUERIES)
    for minute in range(END):
        if minute in ADDED_AT:
            simulation.add(1)
        if minute == BURST_AT:
            simulation.add(BURST)
        simulation.run_minute()
        done = simulation.trace[-1]
        print(f"minute {minute + 1}: {done['bytes'] / 1e6:.1f} MB, windows at {done['fraction']:.2f}", file=sys.stderr)
    errors = simulation.errors()
    steady = [at for at in simulation.trace if at["minute"] > 2 * _MAX_MIN]
    return {
        "bound": BOUND,
        "trace": simulation.trace,
        "median error": {str(level): median(map(abs, found)) for level, found in sorted(errors.items())},
        "largest memory": max(at["bytes"] / (BOUND * at["queries"]) for at in steady),
        "decision seconds": max(at["decision seconds"] for at in steady),
    }
