"""A reader that runs heavy SELECTs while results are computed: `python -m benchmarks.heavy_selects`.

A query filters bids that come at a steady rate, and other clients call the API ten times a second. Turns with and
without a reader alternate, a minute of each in all. The reader runs heavy SELECTs, four at a time: endless recursion,
cross joins, large sorts and texts, and reads of the growing result itself. The benchmark measures, with and without it,
the latency of API calls and of results, from the creation of a record until a read-committed consumer has its result.
Writes `benchmarks/out/heavy_selects.json`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import httpx
import numpy as np
from confluent_kafka import TopicPartition
from numpy.typing import NDArray

from benchmarks.bids import PARTITIONS, WRITER
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.jobs import JOBS
from benchmarks.latency import WARM_UP_S, seen_now
from benchmarks.report import Result, write_report
from benchmarks.throughput import register
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema
from operators.core.errors import ExternalError

See = Callable[[], NDArray[np.int64]]
OUT = Path(__file__).parent / "out" / "heavy_selects.json"
CROSS = "FROM numbers a, numbers b, numbers c, numbers d"
HEAVY = (
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    f"SELECT count(*) {CROSS} WHERE a.n * b.n + c.n = d.n",
    f"SELECT sum(CAST(a.n AS DECIMAL(38, 10)) * b.n / (1 + c.n)) {CROSS}",
    f"SELECT a.n, b.n {CROSS} ORDER BY a.n + d.n, c.n",
    "SELECT length(repeat('x', 1000000000))",
    f"SELECT cardinality(array_agg(a.n)) {CROSS}",
    "SELECT a.n, b.n, repeat('x', 100) FROM numbers a, numbers b",
    "SELECT auction, count(*) AS bids, max(price) FROM kept GROUP BY auction ORDER BY bids DESC LIMIT 10",
    "SELECT count(*) FROM kept x JOIN kept y ON x.price <> y.price",
)
#: The calls of other clients.
CALLS = ("/v1/status", "/v1/queries", "/v1/queries/kept", "/v1/control/operators")
_JOB = JOBS[0]
_NUMBERS, _READERS, _TURNS, _PAUSE_S, _BUSY_S = 2_000, 4, 2, 0.1, 0.2
#: The time at the beginning of each turn that is left out: results in it may belong to the previous turn.
_SETTLE_S = 3.0


@dataclass(frozen=True)
class Turn:
    """A part of the run with or without the reader; its beginning and end in milliseconds."""

    heavy: bool
    begun: float
    ended: float

    def holds(self, stamps: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which times are in the turn, without its first seconds."""
        return (stamps >= self.begun + 1_000 * _SETTLE_S) & (stamps < self.ended)


@dataclass
class Clients:
    """The reader and the other clients: threads that make calls until the block ends."""

    url: str
    #: The time of each call and its latency, in milliseconds.
    calls: list[tuple[float, float]] = field(default_factory=list)
    #: How often the reader's statements were answered with each HTTP status.
    statuses: Counter[int] = field(default_factory=Counter)
    heavy: threading.Event = field(default_factory=threading.Event)
    _leaving: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Clients:
        work = [self._ask, *(lambda first=first: self._read(first) for first in range(_READERS))]
        self._threads = [threading.Thread(target=one, daemon=True) for one in work]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            for number in count():
                if self._leaving.wait(_PAUSE_S):
                    return
                at, began = time.time() * 1_000, time.monotonic()
                client.get(CALLS[number % len(CALLS)]).raise_for_status()
                self.calls.append((at, 1_000 * (time.monotonic() - began)))

    def _read(self, first: int) -> None:
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            for number in count(first):
                while not self.heavy.wait(_PAUSE_S):
                    if self._leaving.is_set():
                        return
                if self._leaving.is_set():
                    return
                answer = client.post("/v1/statements", json={"sql": HEAVY[number % len(HEAVY)]})
                self.statuses[answer.status_code] += 1
                if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
                    self._leaving.wait(_BUSY_S)


@dataclass(frozen=True)
class Measured:
    """The latencies of results and of calls, each with its time, and the turns."""

    results: NDArray[np.float64]
    calls: NDArray[np.float64]
    turns: Sequence[Turn]
    statuses: Counter[int]

    def percentile(self, pairs: NDArray[np.float64], percent: int, *, heavy: bool) -> float:
        """A percentile of the latencies in the turns with or without the reader, in milliseconds."""
        inside = [pairs[turn.holds(pairs[:, 0]), 1] for turn in self.turns if turn.heavy == heavy]
        return float(np.percentile(np.concatenate(inside), percent))


def main() -> None:
    """Measures and writes the report."""
    given = _options()
    with running_cluster() as cluster:
        measured = _measured(cluster, given.rate, given.seconds)
    report(f"the reader's statements by status: {dict(measured.statuses)}")
    write_report(given.out, list(_results(measured)))


def _measured(cluster: Cluster, rate: float, seconds: float) -> Measured:
    schema_id = _prepared(cluster)
    consumer = cluster.kafka.consumer(enable_partition_eof=False)
    consumer.assign([TopicPartition("dsms.kept", partition, 0) for partition in range(PARTITIONS)])
    see = partial(seen_now, consumer, len(_JOB.columns))
    whole_s = 2 * (WARM_UP_S + seconds + _SETTLE_S)
    command = [sys.executable, "-m", "benchmarks.feed", cluster.kafka.bootstrap, "steady", str(schema_id)]
    try:
        with subprocess.Popen([*command, str(rate), str(whole_s)], stdout=subprocess.DEVNULL) as feed:
            try:
                while not see().size:
                    _check(cluster, feed)
                with Clients(cluster.url) as clients:
                    _until(time.monotonic() + WARM_UP_S, see)
                    turns, seen = _turns(clients, seconds, see)
            finally:
                feed.kill()
    finally:
        consumer.close()
    return Measured(seen.astype(np.float64), np.array(clients.calls), turns, clients.statuses)


def _prepared(cluster: Cluster) -> int:
    """Creates the query, and a table for the reader; returns the id of the schema of the bids."""
    schema_id = register_schema(cluster.url, "steady-value", WRITER)
    ensure_topic(cluster.kafka.admin(), "steady", PARTITIONS, KEPT)
    register(cluster, "Steady", "steady")
    cluster.api.execute(f"CREATE QUERY kept WITH (FORMAT = AVRO) AS {_JOB.select(chr(34), 'Steady', 'STREAMED ')}")
    cluster.api.execute("CREATE TABLE numbers (n INT PRIMARY KEY)")
    cluster.api.execute(f"INSERT INTO numbers VALUES {', '.join(f'({number})' for number in range(_NUMBERS))}")
    return schema_id


def _turns(clients: Clients, seconds: float, see: See) -> tuple[list[Turn], NDArray[np.int64]]:
    """Runs the turns; returns them and the results seen meanwhile."""
    turns, seen = [], list[NDArray[np.int64]]()
    for heavy in (False, True) * _TURNS:
        (clients.heavy.set if heavy else clients.heavy.clear)()
        begun = time.time() * 1_000
        seen += _until(time.monotonic() + seconds / _TURNS, see)
        turns.append(Turn(heavy, begun, time.time() * 1_000))
        report(f"{'with' if heavy else 'without'} the reader: {sum(map(len, seen)):,} results so far")
    clients.heavy.clear()
    return turns, np.concatenate([*seen, *_until(time.monotonic() + _SETTLE_S, see)])


def _until(moment_s: float, see: See) -> list[NDArray[np.int64]]:
    """The results seen until this time of the monotonic clock."""
    found: list[NDArray[np.int64]] = []
    while time.monotonic() < moment_s:
        found.append(see())
    return found


def _check(cluster: Cluster, feed: subprocess.Popen[bytes]) -> None:
    if feed.poll() is not None or cluster.failure():
        raise ExternalError(f"no results come: {cluster.failure() or 'the feed has ended'}")


def _results(measured: Measured) -> Iterator[Result]:
    for name, pairs in (("results", measured.results), ("calls", measured.calls)):
        for percent in (50, 99):
            for heavy in (False, True):
                value = measured.percentile(pairs, percent, heavy=heavy)
                label = "with the reader" if heavy else "without"
                yield Result(f"{name}: latency, {percent} of 100, {label}", value, "ms", "lower")
    slower = _p99(measured, measured.results, heavy=True) / _p99(measured, measured.results, heavy=False)
    yield Result("results: change of p99 by the reader", 100 * (slower - 1), "%", "lower", 20)
    later = _p99(measured, measured.calls, heavy=True) - _p99(measured, measured.calls, heavy=False)
    yield Result("calls: change of p99 by the reader", later, "ms", "lower", 100)
    for status, times in sorted(measured.statuses.items()):
        yield Result(f"the reader's statements answered {status}", times, "statements")


def _p99(measured: Measured, pairs: NDArray[np.float64], *, heavy: bool) -> float:
    return measured.percentile(pairs, 99, heavy=heavy)


def _options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heavy_selects", description=__doc__)
    parser.add_argument("--rate", type=float, default=20_000, help="bids a second")
    parser.add_argument("--seconds", type=float, default=60.0, help="with the reader, and as long without")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
