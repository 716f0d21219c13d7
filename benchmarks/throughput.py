"""The throughput of this system in records/s, from the CREATE QUERY statement to the last committed result.

The time of the same query over one bid per partition is subtracted, like the time of an empty job for the peers.
"""

import time
from dataclasses import dataclass, replace

import polars as pl

from benchmarks.bids import PARTITIONS, WRITER, end_ms, load
from benchmarks.cluster import Cluster, report
from benchmarks.jobs import SOURCE_COLUMNS, Job
from benchmarks.net_time import net_s
from benchmarks.progress import FrontierWatch, Moved
from benchmarks.results import committed, expected, verify
from benchmarks.usage import Usage
from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.kafka.schema_registry.registry import register_schema
from operators.core.errors import ExternalError

SLOWEST = 20_000
_WAIT_S = 2.0


@dataclass(frozen=True)
class Run:
    """One run of a job: wall time, epochs, CPU and memory of this project's processes, and of Kafka and Redis."""

    seconds: float
    epochs: int
    cpu_s: float
    peak_mb: float
    services_cpu_s: float
    services_peak_mb: float
    empty_s: float = 0.0

    @property
    def net_s(self) -> float | None:
        """The time minus that of an empty job; None if there were too few records to measure it."""
        return net_s(self.seconds, self.empty_s)


def register(cluster: Cluster, stream: str, topic: str) -> None:
    """Declares a stream of bids over a topic."""
    cluster.api.execute(
        f"REGISTER SOURCE {stream}Source ({SOURCE_COLUMNS}) FROM {topic} FORMAT AVRO "
        f'TIMESTAMP BY "dateTime" TAGGED NONE IDLE AFTER 1 SECOND; '
        f"CREATE STREAM {stream} OVER {stream}Source KEY NULL"
    )


def prepare(cluster: Cluster, records: int) -> None:
    """Loads and declares the streams Bids, with all records, and Few, with one record per partition."""
    for stream, topic, count in (("Bids", "bid", records), ("Few", "few", PARTITIONS)):
        schema_id = register_schema(cluster.url, f"{topic}-value", WRITER)
        size = load(cluster.kafka, topic, count, schema_id)
        register(cluster, stream, topic)
        report(f"loaded {count:,} bids of {size:.1f} bytes into {topic}")


def measure(cluster: Cluster, job: Job, records: int, runs: int) -> list[Run]:
    """Measures runs of a job and verifies each. `empty_s` is the time of a run over the stream Few."""
    idle = min(run_once(cluster, job, "Few", PARTITIONS, f"few{number}").seconds for number in range(3))
    report(f"{job.name}: {idle:.2f} s over {PARTITIONS} bids, which is subtracted")
    done = []
    for number in range(1, runs + 1):
        run = replace(run_once(cluster, job, "Bids", records, f"run{number}"), empty_s=idle)
        rate = f"{records / net:,.0f} records/s" if (net := run.net_s) else "too few records to tell"
        report(
            f"{job.name} run {number}: {run.seconds:.2f} s, less {idle:.2f} s: {rate}, "
            f"{run.epochs} epochs, {run.cpu_s:.1f} CPU s (Kafka and Redis {run.services_cpu_s:.1f}), "
            f"{run.peak_mb:,.0f} MB; results are right"
        )
        done.append(run)
    return done


def run_once(cluster: Cluster, job: Job, stream: str, records: int, label: str) -> Run:
    """Creates the query, waits until all results are committed, verifies them, and drops the query."""
    name = f"{job.name.replace('-', '_')}_{label}"
    topic = f"dsms.{name}"
    select = job.select('"', stream, "STREAMED ")
    watch = FrontierWatch(cluster.kafka, cluster.state.cluster, topic)
    try:
        with Usage(cluster.pids(ours=True)) as ours, Usage(cluster.pids(ours=False)) as services:
            started = time.monotonic()
            cluster.api.execute(f"CREATE QUERY {name} WITH (FORMAT = AVRO) AS {select}")
            moves = until(watch, cluster, end_ms(records), 60 + records / SLOWEST)
    finally:
        watch.close()
    verify(results_of(cluster, topic, job), expected(records, job.answer), name)
    cluster.api.execute(f"DROP QUERY {name}")
    seconds = moves[-1].seen_s - started
    return Run(seconds, len(moves), ours.cpu_s, ours.peak_mb, services.cpu_s, services.peak_mb)


def results_of(cluster: Cluster, topic: str, job: Job) -> pl.DataFrame:
    """The committed results, with instants in milliseconds."""
    results = committed(cluster.kafka, topic, job.columns, WIRE_HEADER_BYTES)
    return results.with_columns(pl.col("dateTime") // 1_000)


def until(watch: FrontierWatch, cluster: Cluster, end: int, timeout_s: float) -> list[Moved]:
    """Waits until all results below the instant `end` are final; returns all moves until then. Raises ExternalError if
    that takes too long."""
    moves: list[Moved] = []
    deadline = time.monotonic() + timeout_s
    while not moves or moves[-1].frontier < end:
        moved = watch.next(_WAIT_S)
        if moved is not None:
            moves.append(moved)
        elif failure := cluster.failure():
            raise ExternalError(f"the job failed: {failure}", retryable=False)
        if time.monotonic() > deadline:
            raise ExternalError(f"the job did not end within {timeout_s:g} s")
    return moves
