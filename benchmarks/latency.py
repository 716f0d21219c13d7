"""The latency from the creation of a record until a read-committed consumer has its result, under a steady load."""

import subprocess
import sys
import time
from dataclasses import dataclass

import msgspec
import numpy as np
from confluent_kafka import Consumer, TopicPartition
from numpy.typing import NDArray

from benchmarks.bids import PARTITIONS, WRITER
from benchmarks.cluster import Cluster, report
from benchmarks.jobs import Job
from benchmarks.results import integers
from benchmarks.throughput import register
from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.kafka.client.topics import KEPT, ensure_topic
from connectors.kafka.schema_registry.registry import register_schema
from operators.core.errors import ExternalError

WARM_UP_S = 10
_CONSUME = 20_000
_POLL_S = 0.005
_DRAIN_S = 60.0


@dataclass(frozen=True)
class Latency:
    """Percentiles in seconds over all results of records created after the warm-up, and the achieved rate."""

    p50_s: float
    p99_s: float
    highest_s: float
    rate: float


class Fed(msgspec.Struct, frozen=True):
    """The summary of a feed: records sent, records that the filter keeps, the achieved rate, the greatest delay, and
    when it began and ended."""

    sent: int
    kept: int
    rate: float
    late_s: float


def measure_latency(cluster: Cluster, job: Job, rate: float, seconds: int) -> Latency:
    """Runs a filter under load and waits for every result."""
    name, topic = "latency", "dsms.latency"
    schema_id = register_schema(cluster.url, "steady-value", WRITER)
    ensure_topic(cluster.kafka.admin(), "steady", PARTITIONS, KEPT)
    register(cluster, "Steady", "steady")
    cluster.api.execute(f"CREATE QUERY {name} WITH (FORMAT = AVRO) AS {job.select(chr(34), 'Steady', 'STREAMED ')}")
    consumer = cluster.kafka.consumer(enable_partition_eof=False)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    arguments = [cluster.kafka.bootstrap, "steady", str(schema_id), str(rate), str(seconds + WARM_UP_S)]
    command = [sys.executable, "-m", "benchmarks.feed", *arguments]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as feed:
            try:
                seen, fed = _until_all(consumer, feed, len(job.columns))
            finally:
                feed.kill()
    finally:
        consumer.close()
    cluster.api.execute(f"DROP QUERY {name}")
    report(f"fed {fed.sent:,} records at {fed.rate:,.0f} of {rate:,.0f} a second; all {fed.kept:,} results came")
    return _percentiles(np.concatenate(seen), fed.rate)


def _until_all(consumer: Consumer, feed: "subprocess.Popen[str]", width: int) -> tuple[list[NDArray[np.int64]], Fed]:
    """Reads (time, latency) pairs in milliseconds until each sent record that the filter keeps has its result."""
    seen: list[NDArray[np.int64]] = []
    count, fed, deadline = 0, None, float("inf")
    while fed is None or count < fed.kept:
        pairs = seen_now(consumer, width)
        count += len(pairs)
        seen.append(pairs)
        if fed is None and feed.poll() is not None:
            fed, deadline = _summary(feed), time.monotonic() + _DRAIN_S
        if time.monotonic() > deadline:
            raise ExternalError(f"only {count} results came of {fed.kept if fed else 0}")
    return seen, fed


def seen_now(consumer: Consumer, width: int) -> NDArray[np.int64]:
    """(Time, latency) pairs in milliseconds of the results that have just arrived, if any."""
    messages = consumer.consume(_CONSUME, _POLL_S)
    now = time.time_ns() // 1_000_000
    bodies = [
        value[WIRE_HEADER_BYTES:] for message in messages if message.error() is None and (value := message.value())
    ]
    if not bodies:
        return np.empty((0, 2), np.int64)
    stamps = integers(b"".join(bodies), width)[:, -1] // 1_000
    return np.stack((stamps, now - stamps), axis=1)


def _summary(feed: "subprocess.Popen[str]") -> Fed:
    assert feed.stdout is not None
    return msgspec.json.decode(feed.stdout.read(), type=Fed)


def _percentiles(seen: NDArray[np.int64], rate: float) -> Latency:
    counted = seen[seen[:, 0] >= seen[:, 0].min() + WARM_UP_S * 1_000, 1] / 1_000
    counts, edges = np.histogram(counted, bins=10)
    for count, edge in zip(counts, edges, strict=False):
        report(f"latency from {edge:6.2f} s: {count:>10,} results")
    p50, p99 = np.percentile(counted, (50, 99))
    return Latency(float(p50), float(p99), float(counted.max()), rate)
