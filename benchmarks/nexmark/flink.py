"""A query on Flink SQL: two runs in a new JVM, of which the second is measured; the result is compared with DuckDB's.

A result whose rows change goes to an upsert topic by its key, any other result to a plain topic, both exactly once.
Flink collects changes for up to two seconds in a mini-batch. State is on the heap.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import polars as pl
import psutil

from benchmarks.bids import PARTITIONS
from benchmarks.cluster import report
from benchmarks.nexmark.answers import decoded, final_values
from benchmarks.nexmark.measured import Cost, Measured, Others, least
from benchmarks.nexmark.ours import Input
from benchmarks.nexmark.questions import Question
from benchmarks.nexmark.reference import verify
from benchmarks.nexmark.streams import INSTANT, STREAMS, TEXT, Stream
from benchmarks.peers.busy import Busy
from benchmarks.peers.flink import FlinkSession, flink_session, listed
from benchmarks.peers.flink_install import FlinkInstall
from benchmarks.usage import Usage
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import ensure_topic
from operators.core.errors import DsmsError, ExternalError

MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}
_TYPES = {INSTANT: "TIMESTAMP(3)", TEXT: "STRING"}


def measure(
    install: FlinkInstall, kafka: KafkaSettings, question: Question, inputs: tuple[Input, Input], limit_s: float
) -> Measured:
    """Measures the warm run over the first input, and a run over the few events of the second."""
    whole, few = inputs
    with _session(install, kafka) as session, _limited(session, limit_s):
        for stream in STREAMS.values():
            for loaded in inputs:
                session.execute(source(stream, loaded.suffix, kafka))
        start_up = least([_run(session, question, few) for _ in range(2)])
        cold, warm = (_run(session, question, whole) for _ in range(2))
    report(
        f"{question.name} on Flink: {warm.seconds:.2f} s (cold {cold.seconds:.2f}, a few events "
        f"{start_up.seconds:.2f}), {warm.cpu_s:.1f} CPU s, {warm.peak_mb:,.0f} MB, others {warm.others:.2f} cores; "
        f"the result is right"
    )
    return Measured(replace(warm, peak_mb=max(cold.peak_mb, warm.peak_mb)), start_up)


@contextmanager
def _session(install: FlinkInstall, kafka: KafkaSettings) -> Iterator[FlinkSession]:
    """A session with checkpoints in files, because the job manager's memory has room for only a few megabytes of
    them."""
    with tempfile.TemporaryDirectory(prefix="dsms-flink-") as directory:
        stored = {"execution.checkpointing.storage": "filesystem", "execution.checkpointing.dir": f"file://{directory}"}
        with flink_session(install, kafka, stored | MINI_BATCH) as session:
            yield session


@contextmanager
def _limited(session: FlinkSession, limit_s: float) -> Iterator[None]:
    """Kills the session's JVM after `limit_s`. The block then raises ExternalError."""
    timer = threading.Timer(limit_s, psutil.Process(session.jvm()).kill)
    timer.start()
    try:
        yield
    except (DsmsError, OSError) as error:
        if not timer.finished.is_set():
            raise
        raise ExternalError(f"not ended after {limit_s:g} s", retryable=False) from error
    finally:
        timer.cancel()


def source(stream: Stream, suffix: str, kafka: KafkaSettings) -> str:
    """A bounded table over the plain topic of a stream.

    >>> print(source(STREAMS["Side"], "", KafkaSettings("k"))[:95])
    CREATE TABLE Side (`code` BIGINT NOT NULL, `label` STRING NOT NULL, `dateTime` TIMESTAMP(3) NOT
    """
    columns = ", ".join(f"`{name}` {_TYPES.get(kind, kind)} NOT NULL" for name, kind in stream.columns.items())
    options = {
        "connector": "kafka", "topic": plain_prefix(suffix) + stream.topic,
        "properties.bootstrap.servers": kafka.bootstrap, "properties.isolation.level": "read_committed",
        "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset", "format": "avro",
    }  # fmt: skip
    watermark = "WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"
    return f"CREATE TABLE {stream.name}{suffix} ({columns}, {watermark}) WITH ({listed(options)})"


def plain_prefix(suffix: str) -> str:
    """The prefix of the topics with plain Avro."""
    return f"plain.{suffix}"


def sink(table: str, question: Question, wanted: pl.DataFrame, kafka: KafkaSettings) -> str:
    """A table for the answer, committed with Flink's checkpoints. It has a primary key if its rows change."""
    columns = ", ".join(f"`{name}` {_sql_type(dtype)} NOT NULL" for name, dtype in wanted.schema.items())
    key = f", PRIMARY KEY ({', '.join(f'`{name}`' for name in question.key)}) NOT ENFORCED" if question.key else ""
    formats = {"key.format": "avro", "value.format": "avro"} if question.key else {"format": "avro"}
    options = {
        "connector": "upsert-kafka" if question.key else "kafka", "topic": table,
        "properties.bootstrap.servers": kafka.bootstrap, **formats, "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": table, "properties.transaction.timeout.ms": "600000",
        "properties.compression.type": "lz4", "properties.linger.ms": "5", "properties.batch.size": "1000000",
    }  # fmt: skip
    return f"CREATE TABLE {table} ({columns}{key}) WITH ({listed(options)})"


def _sql_type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Decimal):
        return f"DECIMAL({dtype.precision}, {dtype.scale})"
    if dtype.is_temporal():
        return "TIMESTAMP(3)"
    return {pl.Int64: "BIGINT", pl.Float64: "DOUBLE", pl.String: "STRING"}[dtype.base_type()]


def writer(wanted: pl.DataFrame) -> dict[str, Any]:
    """The Avro schema that Flink derives from the columns of the sink."""
    fields = [{"name": name, "type": _avro_type(dtype)} for name, dtype in wanted.schema.items()]
    return {"type": "record", "name": "record", "fields": fields}


def _avro_type(dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.Decimal):
        return {"type": "bytes", "logicalType": "decimal", "precision": dtype.precision, "scale": dtype.scale}
    if dtype.is_temporal():
        return {"type": "long", "logicalType": "timestamp-millis"}
    return {pl.Int64: "long", pl.Float64: "double", pl.String: "string"}[dtype.base_type()]


def _run(session: FlinkSession, question: Question, given: Input) -> Cost:
    session.tables += 1
    out = f"{question.name}_{session.name}_{session.tables}"
    wanted = given.reference.answer(question)
    ensure_topic(session.kafka.admin(), out, PARTITIONS)
    session.execute(sink(out, question, wanted, session.kafka))
    jvm = session.jvm()
    with Others() as others, Usage([jvm]) as usage, Busy(jvm) as busy:
        seconds = session.execute(f"INSERT INTO {out} {question.flink_over(given.suffix)}")
    answer = decoded(final_values(session.kafka, out), writer(wanted), 0, wanted)
    compared = list(question.untied) or wanted.columns
    verify(answer.select(compared), wanted.select(compared), f"{question.name} on Flink")
    return Cost(min(busy.seconds, seconds), usage.cpu_s, usage.peak_mb, others.cores, others.loop_s)
