"""One query on several executors: `python -m benchmarks.shares --executors 1,2,4`.

The queries are a pass-through, whose fragments exchange nothing, and a count of bids by auction that is published at
every instant, whose fragments exchange all records and all results through links. With one executor one fragment runs
the query; with several, each runs a shard of it. The benchmark measures the throughput (records/s), CPU (s per million
records, also of Kafka and Redis) and memory (MB). All results are verified. On a machine with few cores, the CPU per
record shows how the query would scale to more machines: it should not grow. Writes `benchmarks/out/shares.json`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.bids import PARTITIONS, end_ms
from benchmarks.cluster import Cluster, report, running_cluster
from benchmarks.progress import ProgressReader
from benchmarks.report import Result, write_report
from benchmarks.results import committed, expected, verify
from benchmarks.throughput import prepare
from benchmarks.usage import Usage
from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "shares.json"
_LIMIT_S, _POLL_S = 600.0, 0.1
Step = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Question:
    """A query over bids, and the columns of its results. `answer` computes the answer over some bids with Polars,
    `total` merges the answers over several pieces, and `last` computes the final result from the changes."""

    name: str
    select: str
    columns: tuple[str, ...]
    answer: Step
    total: Step = lambda frame: frame
    last: Step = lambda frame: frame


def _counts(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.group_by("auction").agg(pl.len().cast(pl.Int64).alias("bids"))


QUESTIONS = (
    Question(
        "pass-through",
        "SELECT STREAMED auction, bidder, price FROM {stream}",
        ("auction", "bidder", "price"),
        lambda frame: frame.select("auction", "bidder", "price"),
    ),
    Question(
        "count by auction",
        "SELECT STREAMED auction, COUNT(*) AS bids FROM {stream} GROUP BY auction",
        ("auction", "bids"),
        _counts,
        total=lambda frame: frame.group_by("auction").agg(pl.col("bids").sum()),
        last=lambda frame: frame.group_by("auction").agg(pl.col("bids").max()),
    ),
)


@dataclass(frozen=True)
class Run:
    """One run: its time, the CPU of this project's processes and of the services, and the peak memory of the former."""

    seconds: float
    cpu_s: float
    services_cpu_s: float
    peak_mb: float


def main() -> None:
    """Measures and writes the report."""
    options = _options()
    results: list[Result] = []
    for executors in options.executors:
        with running_cluster(executors=executors) as cluster:
            prepare(cluster, options.records)
            for question in QUESTIONS:
                results += _figures(cluster, question, executors, options)
    write_report(options.out, results)


def _figures(cluster: Cluster, question: Question, executors: int, options: argparse.Namespace) -> list[Result]:
    runs = [_run(cluster, question, executors, options.records, number) for number in range(options.runs + 1)]
    best = min(runs[1:], key=lambda run: run.seconds)
    millions = options.records / 1e6
    name = f"{question.name}, {executors} executor{'' if executors == 1 else 's'}"
    return [
        Result(f"{name}: throughput", options.records / best.seconds, "records/s"),
        Result(f"{name}: CPU", best.cpu_s / millions, "CPU s/million records", "lower"),
        Result(f"{name}: CPU of Kafka and Redis", best.services_cpu_s / millions, "CPU s/million records", "lower"),
        Result(f"{name}: peak memory", best.peak_mb, "MB", "lower"),
    ]


def _run(cluster: Cluster, question: Question, executors: int, records: int, number: int) -> Run:
    """Runs the query once; the first run warms the executors up."""
    name = f"{question.name.replace('-', '_').replace(' ', '_')}_{number}"
    division = "" if executors == 1 else f", FRAGMENTS = {executors}"
    progress = ProgressReader(cluster.kafka, cluster.state.cluster)
    try:
        with Usage(cluster.pids(ours=True)) as ours, Usage(cluster.pids(ours=False)) as services:
            started = time.monotonic()
            cluster.api.execute(
                f"CREATE QUERY {name} WITH (FORMAT = AVRO, PARTITIONS = {PARTITIONS}{division}) "
                f"AS {question.select.format(stream='Bids')}"
            )
            _await(progress, cluster, f"dsms.{name}", end_ms(records))
            seconds = time.monotonic() - started
    finally:
        progress.close()
    found = committed(cluster.kafka, f"dsms.{name}", question.columns, WIRE_HEADER_BYTES)
    verify(question.last(found), question.total(expected(records, question.answer)), name)
    cluster.api.execute(f"DROP QUERY {name}")
    report(f"{name} on {executors}: {seconds:.2f} s, {ours.cpu_s:.1f} CPU s, results are right")
    return Run(seconds, ours.cpu_s, services.cpu_s, ours.peak_mb)


def _await(progress: ProgressReader, cluster: Cluster, topic: str, end: int) -> None:
    """Waits until all partitions of a result are final up to an instant."""
    reached: dict[int, int] = {}
    deadline = time.monotonic() + _LIMIT_S
    while len(reached) < PARTITIONS or min(reached.values()) < end:
        moves = progress.read(_POLL_S)
        reached |= {moved.partition: moved.frontier for moved in moves if moved.topic == topic}
        if not moves and (failure := cluster.failure()):
            raise ExternalError(f"the query failed: {failure}", retryable=False)
        if time.monotonic() > deadline:
            raise ExternalError(f"the query did not end within {_LIMIT_S:g} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shares", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--executors", type=_numbers, default=[1, 2, 4], help="numbers of executors, such as 1,2,4")
    parser.add_argument("--runs", type=int, default=2, help="runs after a first one; the best is reported")
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
