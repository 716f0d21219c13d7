"""Load shedding at three times the capacity, on a real cluster: `python -m benchmarks.shedding_live`.

Three queries aggregate bids in windows of 2 s. First the benchmark measures the capacity: how fast the same queries
process a backlog with an error bound so small that nothing is shed. Then bids come at a third of the capacity, at three
times the capacity, and at a third again; at the end each query is repaired. The benchmark measures the lag of each
result's frontier behind the wall clock (ms), and the relative errors compared with DuckDB's exact answers over the
whole log. Writes `benchmarks/out/shedding_live.json` and a plot.
"""

import argparse
import json
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

from benchmarks.bids import PARTITIONS, WRITER, heartbeat
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.report import Result, write_report
from benchmarks.shedding_answers import Answers, Rows, errors, final_relation, logged, logged_rates
from benchmarks.shedding_queries import GROUPS, QUERIES, WINDOW_MS, Query
from benchmarks.shedding_watch import Watch, lanes_of
from benchmarks.throughput import register
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "shedding_live.json"
TIMES = 3.0
_SAMPLE_MS, _LIMIT_S, _SEEDS = 100, 600.0, 20
#: An error bound that permits no shedding.
_NOTHING = 1e-9
#: A rate of bids a second that exceeds the capacity.
_MUCH = 80_000.0
#: Sums of the same floats in different orders have a smaller relative difference.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Capacity:
    """The records/s at which a backlog is processed, and the part of the work in operators above each query's Shed."""

    rate: float
    above: Mapping[str, float]


@dataclass(frozen=True)
class Phases:
    """The phases of the input, in milliseconds: it exceeds the capacity from `burst` to `ebb`, not before and after."""

    begun: float
    burst: float
    ebb: float
    ended: float


def main() -> None:
    """Measures and writes the report and the plot."""
    given = _options()
    with running_cluster(given.keep) as cluster:
        schema_id = register_schema(cluster.url, "bids-value", WRITER)
        capacity = _capacity(cluster, schema_id, given.backlog)
        report(f"capacity: {capacity.rate:,.0f} records/s; above the Sheds: {capacity.above}")
        _prepared(cluster, "live")
        for query in QUERIES:
            cluster.api.execute(query.statement("live"))
        with Watch(cluster) as watch:
            _await(cluster, lambda: len(lanes_of(cluster)) == len(QUERIES), "the queries do not run")
            phases = _fed(cluster, schema_id, capacity.rate, given)
            _await_results(cluster, watch, phases.ended)
        answers = Answers(logged(cluster.kafka, "live"), WINDOW_MS, GROUPS)
        rates = logged_rates(cluster.kafka, cluster.state.cluster)
        shed = {query.name: final_relation(cluster.kafka, f"dsms.{query.name}") for query in QUERIES}
        repair_s = _repaired(cluster)
        repaired = {query.name: final_relation(cluster.kafka, f"dsms.{query.name}") for query in QUERIES}
    run = Measured(capacity, phases, watch, answers, shed, repaired, repair_s, rates)
    write_report(given.out, list(_results(run)))
    _plot(given.out.with_suffix(".svg"), run)


def _prepared(cluster: Cluster, stream: str) -> None:
    ensure_topic(cluster.kafka.admin(), stream, PARTITIONS, KEPT)
    register(cluster, stream, stream)


def _capacity(cluster: Cluster, schema_id: int, backlog_s: float) -> Capacity:
    """Measures the capacity with a backlog, after a smaller one to warm up."""
    _prepared(cluster, "backlog")
    for query in QUERIES:
        cluster.api.execute(query.statement("backlog", "full_", _NOTHING))
    with Watch(cluster) as watch:
        rates = [_done(cluster, schema_id, watch, seconds) for seconds in (0.5, backlog_s)]
    above = {query.name: _above(cluster, f"full_{query.name}") for query in QUERIES}
    whole = sum(operator["busy_seconds"] for operator in _operators(cluster))
    for query in QUERIES:
        cluster.api.execute(f"DROP QUERY full_{query.name}")
    return Capacity(rates[-1], {name: busy / whole for name, busy in above.items()})


def _done(cluster: Cluster, schema_id: int, watch: Watch, seconds: float) -> float:
    """Sends bids faster than they can be processed for some seconds; returns the records/s that were processed."""
    fed = _feed(cluster, schema_id, "backlog", [(_MUCH, seconds)])
    names = [f"full_{query.name}" for query in QUERIES]
    _await(cluster, lambda: min(watch.reached(name) for name in names) >= fed["ended_ms"], "the backlog is not done")
    return float(1_000 * fed["sent"] / (time.time() * 1_000 - fed["began_ms"]))


def _operators(cluster: Cluster, query: str | None = None) -> list[dict[str, Any]]:
    asked = {"query": query} if query else {}
    response = httpx.get(f"{cluster.url}/v1/control/operators", params=asked, trust_env=False)
    return list(response.raise_for_status().json())


def _above(cluster: Cluster, query: str) -> float:
    """The busy seconds of the operators above a query's Shed."""
    listed = _operators(cluster, query)
    shed = next(at for at, operator in enumerate(listed) if operator["operator"] == "Shed")
    return float(sum(operator["busy_seconds"] for operator in listed[shed + 1 :]))


def _feed(cluster: Cluster, schema_id: int, topic: str, rates: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Sends bids, for each pair (records/s, seconds) in turn; returns the summary of the feed."""
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
    _await(cluster, lambda: min(watch.reached(query.name) for query in QUERIES) >= instant, "results are not final")


def _repaired(cluster: Cluster) -> float:
    """Repairs all queries; returns the seconds until their results are repaired. A heartbeat makes the repair final."""
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
    """All measurements of a run."""

    capacity: Capacity
    phases: Phases
    watch: Watch
    answers: Answers
    shed: Mapping[str, Rows]
    repaired: Mapping[str, Rows]
    repair_s: float
    rates: pl.DataFrame

    def in_burst(self, window_end: int) -> bool:
        """Whether a window is completely in the burst."""
        return self.phases.burst <= window_end - WINDOW_MS and window_end <= self.phases.ebb

    def whole(self, window_end: int) -> bool:
        """Whether a window is completely in the time of the input."""
        return self.phases.begun <= window_end - WINDOW_MS and window_end <= self.phases.ended

    def lags(self, query: Query) -> list[float]:
        """The lag of the frontier behind the clock, in milliseconds, sampled while input comes."""
        moves = self.watch.moves[f"dsms.{query.name}"]
        times, reached = [at for at, _ in moves], [frontier for _, frontier in moves]
        samples = range(int(self.phases.begun) + 1_000, int(self.phases.ended), _SAMPLE_MS)
        at = [bisect_right(times, sample) - 1 for sample in samples]
        return [
            sample - (reached[index] if index >= 0 else self.phases.begun)
            for sample, index in zip(samples, at, strict=True)
        ]

    def stayed(self, query: Query) -> float:
        """The part of the burst's records that was kept."""
        rates = self.rates.filter(pl.col("query") == self.watch.ids[query.name]).drop("query")
        return self.answers.stayed(rates, self.phases.burst, self.phases.ebb)

    @property
    def even(self) -> float:
        """The part of the records that dropping at the source would keep with the same work in the burst. A record
        dropped at the source costs nothing."""
        return 1 - sum(self.capacity.above[query.name] * (1 - self.stayed(query)) for query in QUERIES)

    def evenly(self, query: Query, seed: int) -> list[float]:
        """The errors in the burst if records are dropped evenly at the source."""
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
    ours = errors(exact, run.shed[name], run.whole)
    within = sum(error <= query.max_error for error in ours) / len(ours)
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
    """The milliseconds from the end of the burst to the first window from which on all results are exact."""
    exact, shed = run.answers.exact(query.aggregates), run.shed[query.name]
    wrong = [
        end for end in sorted({end for end, _ in exact}) if run.whole(end)
        and max(errors(exact, shed, lambda window_end, end=end: window_end == end)) > _ROUNDING
    ]  # fmt: skip
    return max(wrong, default=run.phases.ebb) - run.phases.ebb


def _plot(path: Path, run: Measured) -> None:
    """Plots lags and the part of the input that is kept over time."""
    with mpl.rc_context({"svg.hashsalt": "dsms"}):
        figure = Figure(figsize=(9, 6), layout="constrained")
        above, below = figure.subplots(2, sharex=True)
        for query in QUERIES:
            lags = run.lags(query)
            above.plot(
                [1 + at * _SAMPLE_MS / 1e3 for at in range(len(lags))], [lag / 1e3 for lag in lags], label=query.name
            )
            sheds = run.watch.sheds[query.name]
            below.plot([(at - run.phases.begun) / 1e3 for at, _ in sheds], [stays for _, stays in sheds])
        above.set(ylabel="lag, s")
        below.set(xlabel="seconds", ylabel="part that stays")
        above.legend()
        figure.savefig(path, metadata={"Date": None})


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shedding_live", description=__doc__)
    parser.add_argument("--backlog", type=float, default=6.0, help="seconds of input by which the capacity is measured")
    parser.add_argument("--calm", type=float, default=8.0, help="seconds of a third of the capacity, at first")
    parser.add_argument("--burst", type=float, default=20.0, help="seconds of three times the capacity")
    parser.add_argument("--after", type=float, default=16.0, help="seconds of a third of the capacity, at the end")
    parser.add_argument("--keep", type=Path, help="a directory for data and logs that stay")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
