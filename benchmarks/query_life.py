"""Creates, replaces, pauses and drops queries while others run: `python -m benchmarks.query_life`.

Bids come at a steady rate, and some queries run all the time. The benchmark measures the gaps between two committed
batches of each running query: before, while other queries are added, replaced, paused, resumed and dropped, and
afterwards. It reports the largest and the median gap of each phase, in batches (1 if the query takes part in every
batch) and in seconds. Starts its own cluster, takes about two minutes and writes `benchmarks/out/query_life.json`.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.bids import PARTITIONS, WRITER
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.report import Result, write_report
from benchmarks.throughput import register
from connectors.kafka.client.names import internal_topic
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.records.pieces import committed_ranges, pieces
from connectors.kafka.schema_registry.registry import register_schema
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "query_life.json"
#: The queries that run all the time, by name.
RUNNING = {
    "filtered": "SELECT auction, price FROM Bids WHERE price > 50000000",
    "counted": "SELECT channel, COUNT(*) AS bids FROM Bids GROUP BY channel",
    "recent": "SELECT channel, MAX(price) AS highest FROM Bids [Range 10 Seconds] GROUP BY channel",
    "best": "SELECT auction, price FROM Bids ORDER BY price DESC LIMIT 10",
}
#: The queries that are created, replaced by one another, and dropped.
COMING = (
    "SELECT auction, price FROM Bids WHERE price > 90000000",
    "SELECT channel AS auction, COUNT(*) AS price FROM Bids GROUP BY channel",
    "SELECT auction, price FROM Bids WHERE auction < 2000",
    "SELECT channel AS auction, MIN(price) AS price FROM Bids GROUP BY channel",
)
_QUIET_S, _STEP_S, _TIMEOUT_S = 20.0, 2.0, 120.0
Phase = tuple[str, float, float]


@dataclass(frozen=True)
class Batch:
    """When a batch of a query's result was committed (wall clock), and the number of its epoch."""

    at_s: float
    epoch: int


def main() -> None:
    """Measures and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=5_000.0, help="bids a second")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with running_cluster() as cluster:
        phases = list(_phases(cluster, given.rate))
        batches = {name: _batches(cluster, name) for name in RUNNING}
        if why := cluster.failure():
            raise ExternalError(why)
    write_report(given.out, list(_results(phases, batches)))


def _phases(cluster: Cluster, rate: float) -> Iterator[Phase]:
    """Runs all phases; yields the name of each with its start and end, in seconds of the wall clock."""
    schema_id = register_schema(cluster.url, "steady-value", WRITER)
    ensure_topic(cluster.kafka.admin(), "steady", PARTITIONS, KEPT)
    register(cluster, "Bids", "steady")
    for name, select in RUNNING.items():
        cluster.api.execute(f"CREATE QUERY {name} AS {select}")
    command = [sys.executable, "-m", "benchmarks.feed", cluster.kafka.bootstrap, "steady", str(schema_id), str(rate)]
    with subprocess.Popen([*command, "600"], stdout=subprocess.PIPE, text=True) as feed:
        try:
            if not wait_until(lambda: all(_batches(cluster, name) for name in RUNNING), _TIMEOUT_S, pause_s=0.5):
                raise ExternalError("no results come")
            _let_pass(_QUIET_S, feed)
            yield from _measured_phases(cluster, feed)
        finally:
            feed.kill()


def _measured_phases(cluster: Cluster, feed: "subprocess.Popen[str]") -> Iterator[Phase]:
    numbers = range(len(COMING))
    replacements = [COMING[(number + 2) % len(COMING)] for number in numbers]
    statements = {
        "adding": [f"CREATE QUERY n{number} AS {COMING[number]}" for number in numbers],
        "replacing": [f"CREATE OR REPLACE QUERY n{number} AS {replacements[number]}" for number in numbers],
        "pausing": [f"{verb} n{number}" for verb in ("PAUSE", "RESUME") for number in numbers],
        "dropping": [f"DROP QUERY n{number}" for number in numbers],
    }
    yield _phase("before", lambda: _let_pass(_QUIET_S, feed))
    for name in statements:
        yield _phase(name, lambda name=name: _execute_in_steps(cluster, statements[name], feed))
    yield _phase("after", lambda: _let_pass(_QUIET_S, feed))


def _phase(name: str, act: Callable[[], None]) -> Phase:
    started = time.time()
    act()
    report(f"{name}: {time.time() - started:.1f} s")
    return name, started, time.time()


def _execute_in_steps(cluster: Cluster, statements: Sequence[str], feed: "subprocess.Popen[str]") -> None:
    for statement in statements:
        cluster.api.execute(statement)
        _let_pass(_STEP_S, feed)


def _let_pass(seconds: float, feed: "subprocess.Popen[str]") -> None:
    """Lets the queries run for some seconds. Raises ExternalError if the feed ends meanwhile."""
    try:
        feed.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    raise ExternalError("the feed has ended early")


def _batches(cluster: Cluster, name: str) -> list[Batch]:
    """The batches of a query's result, from the progress topic."""
    key, topic = f"dsms.{name}/0".encode(), internal_topic(cluster.state.cluster, "progress")
    return [
        Batch(message.timestamp()[1] / 1000, int(msgspec.json.decode(message.value())["epoch"]))
        for piece in pieces(cluster.kafka, committed_ranges(cluster.kafka.admin(), topic))
        for message in piece if message.key() == key and message.value()
    ]  # fmt: skip


def _results(phases: list[Phase], batches: Mapping[str, list[Batch]]) -> Iterator[Result]:
    for phase, since, until in phases:
        for name, listed in batches.items():
            pairs = [(former, later) for former, later in pairwise(listed) if since < later.at_s <= until]
            epochs = max((later.epoch - former.epoch for former, later in pairs), default=0)
            seconds = [later.at_s - former.at_s for former, later in pairs]
            yield Result(f"{phase}: largest gap of {name}", epochs, "batches", "lower", aim=2)
            yield Result(f"{phase}: longest gap of {name}", round(max(seconds, default=0.0), 3), "s", "lower")
            yield Result(f"{phase}: median gap of {name}", round(median(seconds or [0.0]), 3), "s", "lower")


if __name__ == "__main__":
    main()
