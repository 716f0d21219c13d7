"""Flink SQL with the same queries: exactly-once Kafka sinks, parallelism 2. Measures the second of two runs in a JVM.

Its topic has the same bids as plain Avro, Flink's faster format. A bounded job may idle until its last checkpoint:
intervals in which the JVM is almost idle are not counted, nor is the time of an empty job.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.bids import PARTITIONS, load
from benchmarks.cluster import report, running_kafka
from benchmarks.jobs import SOURCE_COLUMNS, Job
from benchmarks.net_time import net_s
from benchmarks.peers.busy import Busy
from benchmarks.peers.flink_install import VERSION, FlinkInstall, flink_install
from benchmarks.results import committed, expected, verify
from benchmarks.usage import Usage
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import ensure_topic
from dsms.local.java import find_java
from operators.core.errors import ExternalError

NAME = f"Flink SQL {VERSION}, warm"
PARALLELISM = 2
HEAP = "-Xmx6g"
_STOP_S = 30.0


@dataclass(frozen=True)
class FlinkRun:
    """One run: the wall time, the time without idle intervals, CPU time, peak memory, and the times of an empty job."""

    wall_s: float
    busy_s: float
    cpu_s: float
    peak_mb: float
    empty_s: float = 0.0

    @property
    def net_s(self) -> float | None:
        """The busy time minus that of an empty job; None if there were too few records to measure it."""
        return net_s(self.busy_s, self.empty_s)


@dataclass
class FlinkSession:
    """A client process and its JVM."""

    client: "subprocess.Popen[str]"
    kafka: KafkaSettings
    tables: int = 0

    @property
    def name(self) -> str:
        """A name that no other running session has."""
        return str(self.client.pid)

    def execute(self, sql: str) -> float:
        """Executes a statement; returns the seconds until it and the job that it starts have ended."""
        self.say(json.dumps(sql))
        return self.answer()

    def say(self, line: str) -> None:
        """Sends one line."""
        assert self.client.stdin is not None
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()

    def answer(self) -> float:
        """Reads the next answer; skips all other output of the JVM."""
        assert self.client.stdout is not None
        for line in self.client.stdout:
            if line.startswith("@"):
                return float(line[1:])
            if line.startswith("!"):
                raise ExternalError(f"flink failed: {line[1:].strip()}", retryable=False)
        raise ExternalError("flink ended", hint="its error is printed above", retryable=False)

    def jvm(self) -> int:
        """The process id of the JVM."""
        jvms = [
            process.pid
            for process in psutil.Process(self.client.pid).children(recursive=True)
            if process.name() == "java"
        ]
        assert len(jvms) == 1, f"flink has {len(jvms)} java processes"
        return jvms[0]


def run_flink(jobs: tuple[Job, ...], records: int) -> dict[str, FlinkRun]:
    """Measures the warm run of each job and verifies its results."""
    install = flink_install(report)
    with running_kafka() as kafka:
        for topic, count in (("bid", records), ("few", PARTITIONS)):
            load(kafka, topic, count, None)
        with flink_session(install, kafka) as session:
            session.execute(source("Bids", "bid", kafka))
            session.execute(source("Few", "few", kafka))
            return {job.name: _measure(session, job, records) for job in jobs}


def source(table: str, topic: str, kafka: KafkaSettings) -> str:
    """A bounded table over a topic of bids. Columns are NOT NULL; otherwise Flink expects unions in the records."""
    columns = SOURCE_COLUMNS.replace('"dateTime" TIMESTAMP', "`dateTime` TIMESTAMP(3)").replace("VARCHAR", "STRING")
    options = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": kafka.bootstrap,
        "properties.isolation.level": "read_committed", "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset", "format": "avro",
    }  # fmt: skip
    return f"CREATE TABLE {table} ({columns}) WITH ({listed(options)})"


def sink(table: str, topic: str, job: Job, kafka: KafkaSettings) -> str:
    """A table whose rows are committed with Flink's checkpoints."""
    types = {name: "`dateTime` TIMESTAMP(3)" if name == "dateTime" else f"{name} BIGINT" for name in job.columns}
    columns = ", ".join(f"{text} NOT NULL" for text in types.values())
    options = {
        "connector": "kafka", "topic": topic, "properties.bootstrap.servers": kafka.bootstrap, "format": "avro",
        "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": table,
        "properties.transaction.timeout.ms": "600000", "properties.compression.type": "lz4",
        "properties.linger.ms": "5", "properties.batch.size": "1000000",
    }  # fmt: skip
    return f"CREATE TABLE {table} ({columns}) WITH ({listed(options)})"


def listed(options: dict[str, str]) -> str:
    """Options in the notation of a table's WITH clause."""
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())


def _measure(session: FlinkSession, job: Job, records: int) -> FlinkRun:
    idle = min((_run(session, job, "Few", PARTITIONS) for _ in range(2)), key=lambda run: run.busy_s)
    cold, warm = (_run(session, job, "Bids", records) for _ in range(2))
    for label, run in (("empty", idle), ("cold", cold), ("warm", warm)):
        report(
            f"{job.name} on Flink, {label}: {run.wall_s:.2f} s, busy {run.busy_s:.2f} s, {run.cpu_s:.1f} CPU s, "
            f"{run.peak_mb:,.0f} MB; results are right"
        )
    return replace(warm, peak_mb=max(cold.peak_mb, warm.peak_mb), empty_s=idle.busy_s)


def _run(session: FlinkSession, job: Job, table: str, records: int) -> FlinkRun:
    session.tables += 1
    out = f"out{session.tables}"
    ensure_topic(session.kafka.admin(), out, PARTITIONS)
    session.execute(sink(out, out, job, session.kafka))
    jvm = session.jvm()
    with Usage([jvm]) as usage, Busy(jvm) as busy:
        seconds = session.execute(f"INSERT INTO {out} {job.select('`', table)}")
    verify(committed(session.kafka, out, job.columns, 0), expected(records, job.answer), out)
    return FlinkRun(seconds, min(busy.seconds, seconds), usage.cpu_s, usage.peak_mb)


@contextmanager
def flink_session(
    install: FlinkInstall, kafka: KafkaSettings, settings: Mapping[str, str] | None = None
) -> Iterator[FlinkSession]:
    """A session in a new JVM, with further settings.

    The connectors are in its class path: as pipeline jars they would be loaded and JIT-compiled again for each job.
    """
    configuration = {
        "parallelism.default": str(PARALLELISM),
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": "10 s",
        "restart-strategy.type": "none",
        **(settings or {}),
    }
    java_home = find_java(os.environ).resolve().parent.parent
    environ = {
        **os.environ,
        "JAVA_HOME": str(java_home),
        "JAVA_TOOL_OPTIONS": _tool_options(),
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, install.jars)),
    }
    program = [str(install.python), str(Path(__file__).with_name("flink_client.py"))]
    with tempfile.TemporaryDirectory(prefix="dsms-flink-") as directory:
        client = subprocess.Popen(
            program, cwd=directory, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            session = FlinkSession(client, kafka)
            session.say(json.dumps(configuration))
            session.answer()
            yield session
        finally:
            _end(client)


def _tool_options() -> str:
    return f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {HEAP}".strip()


def _end(client: "subprocess.Popen[str]") -> None:
    """Ends the client and the JVM it started."""
    if client.poll() is None:
        parent = psutil.Process(client.pid)
        family = [parent, *parent.children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        for process in psutil.wait_procs(family, timeout=_STOP_S)[1]:
            process.kill()
    client.wait(_STOP_S)
