"""Queries that come, are replaced and go while others run: `python -m benchmarks.query_life`.

Bids come at a steady rate. For each query that runs all the time, the gaps between two batches of its result are
measured before, while others are added, replaced and dropped, and after. A gap is counted in batches (a query that is
in every batch has gaps of one) and in seconds.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.bids import PARTITIONS, WRITER
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.report import Result, write_report
from benchmarks.throughput import register
from connectors.kafka.names import internal_topic
from connectors.kafka.pieces import committed, pieces
from connectors.kafka.registry import register_schema
from connectors.kafka.topics import KEPT, ensure_topic
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "query_life.json"
#: What runs all the time.
RUNNING = {
    "filtered": "SELECT auction, price FROM Bids WHERE price > 50000000",
    "counted": "SELECT channel, COUNT(*) AS bids FROM Bids GROUP BY channel",
    "recent": "SELECT channel, MAX(price) AS highest FROM Bids [Range 10 Seconds] GROUP BY channel",
    "best": "SELECT auction, price FROM Bids ORDER BY price DESC LIMIT 10",
}
#: What comes, is replaced by the one of the next, and goes.
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
    """When a batch of a query's result was committed, by the wall clock, and the number of its epoch."""

    at_s: float
    epoch: int


def main() -> None:
    """Measures, and writes the report."""
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
    """Runs everything; gives the times in which what was done."""
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
            time.sleep(_QUIET_S)
            yield from _lives(cluster)
        finally:
            feed.kill()


def _lives(cluster: Cluster) -> Iterator[Phase]:
    yield _phase("before", lambda: time.sleep(_QUIET_S))
    pairs = list(enumerate(COMING))
    yield _phase("adding", lambda: _each(cluster, (f"CREATE QUERY n{at} AS {select}" for at, select in pairs)))
    turned = ((at, COMING[(at + 2) % len(COMING)]) for at, _ in pairs)
    yield _phase("replacing", lambda: _each(cluster, (f"CREATE OR REPLACE QUERY n{at} AS {one}" for at, one in turned)))
    yield _phase(
        "pausing", lambda: _each(cluster, (f"{verb} n{at}" for verb in ("PAUSE", "RESUME") for at, _ in pairs))
    )
    yield _phase("dropping", lambda: _each(cluster, (f"DROP QUERY n{at}" for at, _ in pairs)))
    yield _phase("after", lambda: time.sleep(_QUIET_S))


def _phase(name: str, does: Callable[[], None]) -> Phase:
    started = time.time()
    does()
    report(f"{name}: {time.time() - started:.1f} s")
    return name, started, time.time()


def _each(cluster: Cluster, statements: Iterator[str]) -> None:
    for statement in statements:
        cluster.api.execute(statement)
        time.sleep(_STEP_S)


def _batches(cluster: Cluster, name: str) -> list[Batch]:
    """The batches of a query's result, from the progress topic."""
    key, topic = f"dsms.{name}/0".encode(), internal_topic(cluster.state.cluster, "progress")
    return [
        Batch(message.timestamp()[1] / 1000, int(msgspec.json.decode(message.value())["epoch"]))
        for piece in pieces(cluster.kafka, committed(cluster.kafka.admin(), topic))
        for message in piece if message.key() == key and message.value()
    ]  # fmt: skip


def _results(phases: list[Phase], batches: Mapping[str, list[Batch]]) -> Iterator[Result]:
    for phase, since, until in phases:
        for name, listed in batches.items():
            pairs = [
                (one, other) for one, other in zip(listed, listed[1:], strict=False) if since < other.at_s <= until
            ]
            epochs = max((other.epoch - one.epoch for one, other in pairs), default=0)
            seconds = [other.at_s - one.at_s for one, other in pairs]
            yield Result(f"{phase}: largest gap of {name}", epochs, "batches", "lower", aim=2)
            yield Result(f"{phase}: longest gap of {name}", round(max(seconds, default=0.0), 3), "s", "lower")
            yield Result(f"{phase}: median gap of {name}", round(median(seconds or [0.0]), 3), "s", "lower")


if __name__ == "__main__":
    main()
