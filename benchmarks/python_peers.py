"""The queries of `benchmarks.slice` on other Python engines: `python -m benchmarks.python_peers --records 2000000`.

Bids as JSON are read from a topic, filtered or passed through, and written to another topic as JSON: by this system, by
Pathway and by plain Spark Structured Streaming (from_json, its Kafka source and sink, `availableNow`). This system
writes exactly once and in the order of instants, the peers at least once. Each engine runs in one process: the first
run warms it up, the second is measured, and the time of the same query over one record per partition is subtracted. All
results are verified. Writes `benchmarks/out/python_peers.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import psutil

from benchmarks.bids import PARTITIONS, all_bids, end_ms, heartbeat, send
from benchmarks.cluster import Cluster, report, running_cluster, running_kafka
from benchmarks.jobs import JOBS, Job
from benchmarks.net_time import net_s
from benchmarks.progress import FrontierWatch
from benchmarks.report import Result, write_report
from benchmarks.results import committed_messages, expected, verify
from benchmarks.throughput import until
from benchmarks.usage import Usage
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import KEPT, ensure_topic
from dsms.local.artifacts import Resolver, cache_dir
from dsms.local.java import find_java
from dsms.local.versions import Artifact
from operators.core.errors import ExternalError

OUT = Path(__file__).parent / "out" / "python_peers.json"
#: The newest Spark for which a Kafka connector is available.
PATHWAY, SPARK = "0.33.0", "4.2.0"
#: The jars that Spark's Kafka source needs in addition to Spark.
_SPARK_JARS = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
_TOPICS = ("bid", "few")
_HERE = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Run:
    """One run: seconds, CPU seconds and peak memory of the engine's processes."""

    seconds: float
    cpu_s: float
    peak_mb: float


#: Runs a job from a topic into another one, until all results are written.
Engine = Callable[[Job, str, str], Run]


def main() -> None:
    """Measures all engines, one after the other, and writes the report."""
    options = _options()
    results: list[Result] = []
    with running_cluster() as cluster:
        for topic, count in zip(_TOPICS, (options.records, PARTITIONS), strict=True):
            _load(cluster.kafka, topic, count)
        results += _figures("ours", _ours(cluster, options.records), cluster.kafka, options.records)
    for name, engine in (("Pathway", _pathway), ("plain Spark", _spark)):
        with _kafka(options.records) as kafka, engine(kafka) as run:
            results += _figures(name, run, kafka, options.records)
    write_report(options.out, results)


def _figures(name: str, run: Engine, kafka: KafkaSettings, records: int) -> Iterator[Result]:
    for job in JOBS:
        few, _, warm = (
            _verified(run, job, topic, f"{name.replace(' ', '')}-{job.name}-{number}", kafka, count)
            for number, (topic, count) in enumerate((("few", PARTITIONS), ("bid", records), ("bid", records)))
        )
        net = net_s(warm.seconds, few.seconds)
        report(f"{name}, {job.name}: {warm.seconds:.2f} s less {few.seconds:.2f} s, {warm.cpu_s:.1f} CPU s")
        if net:
            yield Result(f"{job.name}, {name}: throughput", records / net, "records/s")
        yield Result(f"{job.name}, {name}: CPU", warm.cpu_s / records * 1e6, "CPU µs/record", "lower")
        yield Result(f"{job.name}, {name}: peak memory", warm.peak_mb, "MB", "lower")


def _verified(run: Engine, job: Job, topic: str, out: str, kafka: KafkaSettings, records: int) -> Run:
    done = run(job, topic, out)
    written = out if out in kafka.admin().list_topics(timeout=10).topics else f"dsms.{_name(out)}"
    lines = [message.value() for messages in committed_messages(kafka, written) for message in messages]
    schema = dict.fromkeys(job.columns, pl.Int64)
    rows = pl.read_ndjson(b"\n".join(filter(None, lines)), schema=schema) if any(lines) else pl.DataFrame(schema=schema)
    verify(rows, expected(records, job.answer), out)
    return done


def _name(out: str) -> str:
    return out.replace("-", "_")


def _load(kafka: KafkaSettings, topic: str, records: int) -> None:
    """Fills a topic with bids as JSON."""
    ensure_topic(kafka.admin(), topic, PARTITIONS, KEPT)
    producer = kafka.producer()
    for frame in all_bids(records):
        send(producer, topic, [line.encode() for line in frame.write_ndjson().splitlines()])
    producer.flush()


def _ours(cluster: Cluster, records: int) -> Engine:
    counts = dict(zip(_TOPICS, (records, PARTITIONS), strict=True))
    producer = cluster.kafka.producer()
    for topic, count in counts.items():
        heartbeat(producer, topic, PARTITIONS, end_ms(count))
        columns = "auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT NOT NULL, channel VARCHAR NOT NULL"
        cluster.api.execute(
            f'REGISTER SOURCE {topic}Source ({columns}, url VARCHAR NOT NULL, "dateTime" BIGINT NOT NULL, '
            f'extra VARCHAR NOT NULL) FROM {topic} FORMAT JSON TIMESTAMP BY "dateTime" TAGGED NONE '
            f"IDLE AFTER 1 SECOND; CREATE STREAM {topic} OVER {topic}Source KEY NULL"
        )
    producer.flush()

    def run(job: Job, topic: str, out: str) -> Run:
        watch = FrontierWatch(cluster.kafka, cluster.state.cluster, f"dsms.{_name(out)}")
        try:
            with Usage(cluster.pids(ours=True)) as usage:
                started = time.monotonic()
                cluster.api.execute(f"CREATE QUERY {_name(out)} AS {job.select(chr(34), topic, 'STREAMED ')}")
                moves = until(watch, cluster, end_ms(counts[topic]), 600)
        finally:
            watch.close()
        return Run(moves[-1].seen_s - started, usage.cpu_s, usage.peak_mb)

    return run


@contextmanager
def _kafka(records: int) -> Iterator[KafkaSettings]:
    with running_kafka() as kafka:
        for topic, count in zip(_TOPICS, (records, PARTITIONS), strict=True):
            _load(kafka, topic, count)
        yield kafka


@contextmanager
def _pathway(kafka: KafkaSettings) -> Iterator[Engine]:
    python = _environment("pathway", PATHWAY)
    environ = {**os.environ, "PATHWAY_THREADS": "2"}
    with _client([str(python), str(_HERE / "pathway_client.py")], environ, kafka) as engine:
        yield engine


@contextmanager
def _spark(kafka: KafkaSettings) -> Iterator[Engine]:
    java, cache = find_java(os.environ), cache_dir(os.environ)
    jars = cache / "jars" / f"spark-kafka-{SPARK}"
    if not jars.is_dir():
        connector = Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK)
        Resolver(java, cache, os.environ)._fetch((connector,), jars, report)
    environ = {**os.environ, "JAVA_HOME": str(java.resolve().parent.parent)}
    needed = (str(jar) for name in _SPARK_JARS for jar in jars.glob(f"{name}-*.jar"))
    command = [str(_environment("pyspark", SPARK)), str(_HERE / "spark_client.py"), ",".join(needed)]
    with _client(command, environ, kafka) as engine:
        yield engine


def _environment(package: str, version: str) -> Path:
    """The Python of a separate environment with a package. The environment is created once, in the cache directory."""
    home = cache_dir(os.environ) / f"{package}-{version}-venv"
    python, done = home / "bin" / "python", home / ".done"
    if not done.exists():
        report(f"installing {package} {version} into {home} (once, a few minutes)")
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"{package}=={version}"], check=True)
        done.touch()
    return python


@contextmanager
def _client(command: list[str], environ: dict[str, str], kafka: KafkaSettings) -> Iterator[Engine]:
    """An engine in a separate process, which answers each job with a line."""
    client = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdin is not None and client.stdout is not None
    say, answers = client.stdin, client.stdout

    def run(job: Job, topic: str, out: str) -> Run:
        ensure_topic(kafka.admin(), out, PARTITIONS)
        order = {
            "broker": kafka.bootstrap,
            "topic": topic,
            "out": out,
            "columns": job.columns,
            "tenth": bool(job.where),
        }
        pids = [client.pid, *(child.pid for child in psutil.Process(client.pid).children(recursive=True))]
        with Usage(pids) as usage:
            say.write(json.dumps(order) + "\n")
            say.flush()
            answer = next((line for line in answers if line.startswith("@")), None)
        if answer is None:
            raise ExternalError(f"{command[1]} ended", hint="its error is printed above", retryable=False)
        return Run(float(answer[1:]), usage.cpu_s, usage.peak_mb)

    try:
        yield run
    finally:
        client.stdin.close()
        client.wait(60)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python_peers", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--out", type=Path, default=OUT, help="where the report goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
