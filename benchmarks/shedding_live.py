"""Shedding at three times the capacity, live: `python -m benchmarks.shedding_live`.

Three queries sum up bids in windows of 2 s. First the capacity is measured: how fast a backlog is done by the same
queries with a bound so small that nothing is left out. Then bids come at a third of it, at three times of it, and at a
third again, and at the end each query is repaired. Lags are frontiers of result topics against the wall clock; errors
are against DuckDB's exact answers over all that is in Kafka.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.bids import PARTITIONS, WRITER, heartbeat
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.progress import Moved, ProgressReader
from benchmarks.report import Result, write_report
from benchmarks.shedding_answers import Answers, Rows, errors, logged, told
from benchmarks.throughput import register
from connectors.kafka.registry import register_schema
from connectors.kafka.topics import KEPT, ensure_topic
from dsms.local.waiting import wait_until
from operators.errors import ExternalError

OUT = Path(__file__).parent / "out" / "shedding_live.json"
WINDOW_MS, GROUPS, TIMES = 2_000, 4, 3.0
_SAMPLE_MS, _LIMIT_S, _SEEDS = 100, 120.0, 20
#: A bound that allows nothing.
_NOTHING = 1e-9
#: More bids a second than can be done.
_MUCH = 40_000.0
#: Two ways to add up floats differ by less.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Query:
    """A sum-up of bids by group and window, and what may be left out of it."""

    name: str
    aggregates: str
    max_error: float
    deadline_s: float
    weight: float

    def statement(self, stream: str, prefix: str = "", max_error: float | None = None) -> str:
        """The query over a stream."""
        bound = max_error or self.max_error
        options = f"max_error = {bound:.9f}, deadline = '{self.deadline_s:g} s', weight = {self.weight:g}"
        return (
            f"CREATE QUERY {prefix}{self.name} WITH ({options}) AS SELECT STREAMED window_end, auction % {GROUPS} AS k,"
            f" {self.aggregates} FROM TUMBLE(TABLE {stream}, DESCRIPTOR(TS), {WINDOW_MS})"
            f" GROUP BY window_end, auction % {GROUPS} EMIT FINAL"
        )


_MANY = ", ".join(f"SUM({name}) AS s_{name}, AVG({name}) AS a_{name}" for name in ("price", "bidder", "auction"))
_MORE = ", ".join(
    f"SUM(price) FILTER (WHERE auction % 97 > {at}) AS s_{at}, AVG(price) FILTER (WHERE auction % 97 > {at}) AS a_{at}"
    for at in range(8)
)
QUERIES = (
    Query("volume", "COUNT(*) AS n", 0.05, 6.0, 8.0),
    Query("revenue", "COUNT(*) AS n, SUM(price) AS s_price", 0.1, 8.0, 2.0),
    Query("profile", f"COUNT(*) AS n, {_MANY}, {_MORE}", 0.2, 10.0, 1.0),
)


@dataclass
class Watch:
    """The moves of all results, and what is left out, seen until it is left."""

    cluster: Cluster
    moves: dict[str, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    #: (milliseconds, part that stays, rows left out, late) by query.
    sheds: dict[str, list[tuple[float, float, int, bool]]] = field(default_factory=lambda: defaultdict(list))
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Watch":
        self._progress = ProgressReader(self.cluster.kafka, self.cluster.state.cluster)
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._follow, self._ask)]
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        for one in self._threads:
            one.join()
        self._progress.close()

    def reached(self, name: str) -> int:
        """The frontier of a result."""
        moves = self.moves.get(f"dsms.{name}")
        return moves[-1][1] if moves else -1

    def _follow(self) -> None:
        while not self._leaving.is_set():
            for one in self._progress.read(0.1):
                self.moves[one.topic].append((_wall_ms(one), one.frontier))

    def _ask(self) -> None:
        while not self._leaving.wait(0.5):
            at = time.time() * 1_000
            for query, lane in _lanes(self.cluster).items():
                self.sheds[query].append((at, lane["stays"], lane["left_out"], lane["late"]))


def _wall_ms(one: Moved) -> float:
    return (time.time() - (time.monotonic() - one.seen_s)) * 1_000


def _lanes(cluster: Cluster) -> dict[str, Any]:
    """How the queries fare: those of the cluster are ours, made in their order."""
    executors = cluster.api.status()["executors"].values()
    lanes = {int(query[1:]): lane for one in executors for query, lane in one["lanes"].items()}
    return {query.name: lanes[number] for query, number in zip(QUERIES, sorted(lanes), strict=False)}


@dataclass(frozen=True)
class Capacity:
    """Records a second of a backlog, and the part of the work that lies above each query's Shed."""

    rate: float
    above: Mapping[str, float]


@dataclass(frozen=True)
class Phases:
    """When input came, in milliseconds: calm, then too much until `ebb`, then calm again."""

    begun: float
    burst: float
    ebb: float
    ended: float


def main() -> None:
    """Measures, writes the report and the plot."""
    given = _options()
    with running_cluster(given.keep) as cluster:
        schema_id = register_schema(cluster.url, "bids-value", WRITER)
        capacity = _capacity(cluster, schema_id, given.backlog)
        report(f"capacity: {capacity.rate:,.0f} records/s; above the Sheds: {capacity.above}")
        _prepared(cluster, "live")
        for query in QUERIES:
            cluster.api.execute(query.statement("live"))
        with Watch(cluster) as watch:
            _await(cluster, lambda: len(_lanes(cluster)) == len(QUERIES), "the queries do not run")
            phases = _fed(cluster, schema_id, capacity.rate, given)
            _await_results(cluster, watch, phases.ended)
        answers = Answers(logged(cluster.kafka, "live"), WINDOW_MS, GROUPS)
        shed = {query.name: told(cluster.kafka, f"dsms.{query.name}") for query in QUERIES}
        repair_s = _repaired(cluster)
        repaired = {query.name: told(cluster.kafka, f"dsms.{query.name}") for query in QUERIES}
    run = Measured(capacity, phases, watch, answers, shed, repaired, repair_s)
    write_report(given.out, list(_results(run)))
    _plot(given.out.with_suffix(".svg"), run)


def _prepared(cluster: Cluster, stream: str) -> None:
    ensure_topic(cluster.kafka.admin(), stream, PARTITIONS, KEPT)
    register(cluster, stream, stream)


def _capacity(cluster: Cluster, schema_id: int, backlog_s: float) -> Capacity:
    """By a backlog, after a smaller one for warming up."""
    _prepared(cluster, "backlog")
    for query in QUERIES:
        cluster.api.execute(query.statement("backlog", "full_", _NOTHING))
    with Watch(cluster) as watch:
        rates = [_done(cluster, schema_id, watch, seconds) for seconds in (0.5, backlog_s)]
    above = {query.name: _above(cluster, f"full_{query.name}") for query in QUERIES}
    whole = sum(one["busy_seconds"] for one in _operators(cluster))
    for query in QUERIES:
        cluster.api.execute(f"DROP QUERY full_{query.name}")
    return Capacity(rates[-1], {name: busy / whole for name, busy in above.items()})


def _done(cluster: Cluster, schema_id: int, watch: Watch, seconds: float) -> float:
    """The records a second that are done, of more than can be done for so many seconds."""
    fed = _feed(cluster, schema_id, "backlog", [(_MUCH, seconds)])
    names = [f"full_{query.name}" for query in QUERIES]
    _await(cluster, lambda: min(watch.reached(name) for name in names) >= fed["ended_ms"], "the backlog is not done")
    return float(1_000 * fed["sent"] / (time.time() * 1_000 - fed["began_ms"]))


def _operators(cluster: Cluster, query: str | None = None) -> list[dict[str, Any]]:
    asked = {"query": query} if query else {}
    found = httpx.get(f"{cluster.url}/v1/control/operators", params=asked, trust_env=False)
    return list(found.raise_for_status().json())


def _above(cluster: Cluster, query: str) -> float:
    """The busy seconds above a query's Shed."""
    listed = _operators(cluster, query)
    shed = next(at for at, one in enumerate(listed) if one["operator"] == "Shed")
    return float(sum(one["busy_seconds"] for one in listed[shed + 1 :]))


def _feed(cluster: Cluster, schema_id: int, topic: str, rates: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Offers bids at some rates for some seconds; the milliseconds at which that began and ended."""
    command = [sys.executable, "-m", "benchmarks.feed", cluster.kafka.bootstrap, topic, str(schema_id)]
    command += [str(number) for pair in rates for number in pair]
    fed = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    report(f"fed {fed['sent']:,} records, at most {fed['late_s']:.2f} s late")
    return dict(fed)


def _fed(cluster: Cluster, schema_id: int, capacity: float, given: argparse.Namespace) -> Phases:
    calm, much = capacity / 3, capacity * TIMES
    fed = _feed(cluster, schema_id, "live", [(calm, given.calm), (much, given.burst), (calm, given.after)])
    burst = fed["began_ms"] + 1_000 * given.calm
    return Phases(fed["began_ms"], burst, burst + 1_000 * given.burst, fed["ended_ms"])


def _await(cluster: Cluster, done: Callable[[], bool], what: str) -> None:
    if not wait_until(lambda: done() or cluster.failure() is not None, _LIMIT_S, pause_s=0.1) or cluster.failure():
        raise ExternalError(f"{what} after {_LIMIT_S:g} s: {cluster.failure() or 'nothing failed'}")


def _await_results(cluster: Cluster, watch: Watch, instant: float) -> None:
    _await(cluster, lambda: min(watch.reached(one.name) for one in QUERIES) >= instant, "results are not final")


def _repaired(cluster: Cluster) -> float:
    """The seconds until the results of all queries are repaired: they are told when time goes on, as is promised."""
    began, instant = time.monotonic(), time.time_ns() // 1_000_000
    with Watch(cluster) as watch:
        for query in QUERIES:
            cluster.api.execute(f"REPAIR QUERY {query.name}")
        producer = cluster.kafka.producer()
        heartbeat(producer, "live", PARTITIONS, instant)
        producer.flush()
        _await_results(cluster, watch, instant)
    return time.monotonic() - began


@dataclass(frozen=True)
class Measured:
    """A whole run."""

    capacity: Capacity
    phases: Phases
    watch: Watch
    answers: Answers
    shed: Mapping[str, Rows]
    repaired: Mapping[str, Rows]
    repair_s: float

    def in_burst(self, window_end: int) -> bool:
        """Whether all of a window is in the burst."""
        return self.phases.burst <= window_end - WINDOW_MS and window_end <= self.phases.ebb

    def whole(self, window_end: int) -> bool:
        """Whether input came for all of a window."""
        return self.phases.begun <= window_end - WINDOW_MS and window_end <= self.phases.ended

    def lags(self, query: Query) -> list[float]:
        """How far the frontier is behind the clock, in milliseconds, all the time that input comes."""
        moves = self.watch.moves[f"dsms.{query.name}"]
        times, reached = [at for at, _ in moves], [frontier for _, frontier in moves]
        samples = range(int(self.phases.begun) + 1_000, int(self.phases.ended), _SAMPLE_MS)
        at = [bisect_right(times, sample) - 1 for sample in samples]
        return [
            sample - (reached[one] if one >= 0 else self.phases.begun) for sample, one in zip(samples, at, strict=True)
        ]

    def stayed(self, query: Query) -> float:
        """The part of the records of the burst that stayed."""
        left_out = self.watch.sheds[query.name][-1][2]
        return 1 - left_out / self.answers.between(self.phases.burst, self.phases.ebb)

    @property
    def even(self) -> float:
        """The part of the records that may come in where they are dropped at the source, for the work that we have done
        in the burst: a record that is dropped there is neither read nor anything else."""
        return 1 - sum(self.capacity.above[query.name] * (1 - self.stayed(query)) for query in QUERIES)

    def evenly(self, query: Query, seed: int) -> list[float]:
        """The errors in the burst where records are dropped evenly."""
        exact = self.answers.exact(query.aggregates)
        return errors(exact, self.answers.sampled(query.aggregates, self.even, seed), self.in_burst)


def _results(run: Measured) -> Iterator[Result]:
    yield Result("capacity", run.capacity.rate, "records/s")
    for query in QUERIES:
        yield from _of_query(run, query)
    yield Result("repair of all", run.repair_s, "s", "lower")
    ours = max(query.weight * max(_ours(run, query)) for query in QUERIES)
    even = median(max(query.weight * max(run.evenly(query, seed)) for query in QUERIES) for seed in range(_SEEDS))
    yield Result("even dropping at the source: part that stays", 1e4 * run.even, "1/10000")
    yield Result("largest weighted error", 1e4 * ours, "1/10000", "lower")
    yield Result("even dropping: largest weighted error", 1e4 * even, "1/10000", "lower")
    yield Result("largest weighted error, of that of even dropping", 100 * ours / even, "%", "lower", 50)


def _ours(run: Measured, query: Query) -> list[float]:
    return errors(run.answers.exact(query.aggregates), run.shed[query.name], run.in_burst)


def _of_query(run: Measured, query: Query) -> Iterator[Result]:
    name, exact, lags = query.name, run.answers.exact(query.aggregates), run.lags(query)
    deadline = 1_000 * query.deadline_s
    yield Result(f"{name}: longest lag", max(lags), "ms", "lower", deadline)
    yield Result(
        f"{name}: lag within the deadline", 100 * sum(lag <= deadline for lag in lags) / len(lags), "%", aim=100
    )
    mine = errors(exact, run.shed[name], run.whole)
    within = sum(error <= query.max_error for error in mine) / len(mine)
    yield Result(f"{name}: results within max_error", 100 * within, "%", aim=95)
    yield Result(f"{name}: part of the burst that stays", 1e4 * run.stayed(query), "1/10000")
    yield Result(
        f"{name}: error in the burst, 95 of 100", 1e4 * quantiles(_ours(run, query), n=20)[-1], "1/10000", "lower"
    )
    yield Result(f"{name}: error in the burst, largest", 1e4 * max(_ours(run, query)), "1/10000", "lower")
    yield Result(f"{name}: exact again after the burst", _exact_after(run, query) / 1e3, "s", "lower")
    wrong = sum(error > _ROUNDING for error in errors(exact, run.repaired[name], run.whole))
    yield Result(f"{name}: rows that are not exact after REPAIR QUERY", wrong, "rows", "lower", 0)


def _exact_after(run: Measured, query: Query) -> float:
    """From the end of the burst to the start of the first window from which on all are exact."""
    exact, shed = run.answers.exact(query.aggregates), run.shed[query.name]
    wrong = [
        end for end in sorted({end for end, _ in exact}) if run.whole(end)
        and max(errors(exact, shed, lambda one, end=end: one == end)) > _ROUNDING
    ]  # fmt: skip
    return max(wrong, default=run.phases.ebb) - run.phases.ebb


def _plot(path: Path, run: Measured) -> None:
    """Lags, and what stays, over time."""
    with mpl.rc_context({"svg.hashsalt": "dsms"}):
        figure = Figure(figsize=(9, 6), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        for query in QUERIES:
            lags = run.lags(query)
            above.plot(
                [1 + at * _SAMPLE_MS / 1e3 for at in range(len(lags))], [lag / 1e3 for lag in lags], label=query.name
            )
            sheds = run.watch.sheds[query.name]
            below.plot([(at - run.phases.begun) / 1e3 for at, *_ in sheds], [stays for _, stays, *_ in sheds])
        above.set(ylabel="lag, s")
        below.set(xlabel="seconds", ylabel="part that stays")
        above.legend()
        figure.savefig(path, metadata={"Date": None})


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shedding_live", description=__doc__)
    parser.add_argument("--backlog", type=float, default=4.0, help="seconds of input by which the capacity is measured")
    parser.add_argument("--calm", type=float, default=8.0, help="seconds of a third of the capacity, at first")
    parser.add_argument("--burst", type=float, default=20.0, help="seconds of three times the capacity")
    parser.add_argument("--after", type=float, default=16.0, help="seconds of a third of the capacity, at the end")
    parser.add_argument("--keep", type=Path, help="a directory for data and logs that stay")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
