"""Kills executors and the coordinator under load; measures how long no results are published and reads the final
results."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.progress import Frontiers, ProgressReader
from connectors.kafka.client.config import KafkaSettings
from dsms.local.process import ManagedProcess
from dsms.local.waiting import wait_until
from integration.cluster import DEADLINE_S, Cluster, kill_9
from integration.kafka_log import Change, Input, advance, changes, write

PARTITIONS, PER_TICK, TICK_S = 2, 400, 0.2
KILLINGS = ("an executor", "the coordinator", "an executor and the coordinator")
#: An instant above all instants of the load.
END = 1_000_000_000
SOURCE = """
    REGISTER SOURCE {p}src (k VARCHAR NOT NULL, v INT) FROM "{topic}" SLACK 5 IDLE NEVER;
    CREATE STREAM {p}keyed OVER {p}src KEY k; CREATE STREAM {p}all OVER {p}src KEY NULL;
"""
SHAPES = (
    "SELECT STREAMED k, v FROM R({p}keyed) WHERE v > {c}",
    "SELECT STREAMED k, COUNT(*) AS n, SUM(v) AS s FROM {p}all WHERE v > {c} GROUP BY k",
    "SELECT STREAMED k, MAX(v) AS m FROM {p}all [RANGE 50] WHERE v < {c} GROUP BY k",
    "SELECT STREAMED a.k, b.v FROM R({p}keyed) a JOIN R({p}keyed) b ON a.v = b.v AND a.k < b.k WHERE a.v > {c}",
)


@dataclass
class Standstill:
    """The seconds from a kill until all results were final up to the instant that was written next. `usual_s` is how
    long that takes without a kill."""

    killed: str
    seconds: float
    usual_s: float


@dataclass
class Load:
    """Records that a thread writes continuously; `instant` is the last one in the log."""

    kafka: str
    topic: str
    instant: int = 0
    failure: Exception | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Writes until `stop` is called."""
        try:
            while not self._over.wait(TICK_S):
                now = self.instant + 10
                write(self.kafka, self.topic, map(_input, range(now * PER_TICK, (now + 1) * PER_TICK)))
                advance(self.kafka, self.topic, now, PARTITIONS)
                self.instant = now
        except Exception as error:  # noqa: BLE001 raised by stop()
            self.failure = error

    def stop(self) -> None:
        """Ends the load. Raises the error that has ended it before, if any."""
        self._over.set()
        if self.failure is not None:
            raise self.failure


def _input(at: int) -> Input:
    row = {"k": f"k{at * 7919 % 40}", "v": at * 104_729 % 100}
    return Input(json.dumps(row).encode(), at // PER_TICK + at % 5, at % PARTITIONS)


def register(cluster: Cluster, topic: str, count: int) -> list[str]:
    """Creates `count` queries of all shapes with different constants; returns their result topics."""
    cluster.sql(SOURCE.format(p=cluster.name, topic=topic))
    names = [f"{cluster.name}q{number}" for number in range(count)]
    for number, name in enumerate(names):
        select = SHAPES[number % len(SHAPES)].format(p=cluster.name, c=1 + number // len(SHAPES) * 3 % 90)
        cluster.sql(f"CREATE QUERY {name} AS {select}")
    return [f"dsms.{name}" for name in names]


@contextmanager
def loaded(kafka: str, topic: str) -> Iterator[Load]:
    """A load that runs during the block. Afterwards heartbeats make the instants up to `END` final."""
    load = Load(kafka, topic)
    thread = threading.Thread(target=load.run, name="load")
    thread.start()
    try:
        yield load
    finally:
        load.stop()
        thread.join()
        advance(kafka, topic, END, PARTITIONS)


def disturbed(cluster: Cluster, topic: str, topics: list[str]) -> list[Standstill]:
    """Kills under load, one after the other: the working executor, the coordinator, and both at once."""
    frontiers = Frontiers(ProgressReader(KafkaSettings(cluster.kafka), cluster.name, whole=True))
    try:
        with loaded(cluster.kafka, topic) as load:
            return list(_killings(cluster, load, frontiers, topics))
    finally:
        frontiers.close()


def _killings(cluster: Cluster, load: Load, frontiers: Frontiers, topics: list[str]) -> Iterator[Standstill]:
    executors = {name: cluster.start_executor(name) for name in ("one", "two")}
    for what in KILLINGS:
        await_all(cluster, executors)
        usual = max(_passed_s(frontiers, topics, _next(load)) for _ in range(5))
        if "executor" in what:
            kill_9(executors.pop(cluster.get("status")["assignments"]["0"]["executor"]))
        if "coordinator" in what:
            kill_9(cluster.coordinator)
            cluster.coordinator.start()
        yield Standstill(what, _passed_s(frontiers, topics, _next(load)), usual)
        if "executor" in what:
            executors[f"after {what}"] = cluster.start_executor(f"after {what}")


def _passed_s(frontiers: Frontiers, topics: list[str], instant: int) -> float:
    """The seconds from now until all results are final below an instant."""
    begun = time.monotonic()
    return frontiers.wait(topics, instant, DEADLINE_S) - begun


def _next(load: Load) -> int:
    """The next instant of the load, whose records are written after this call."""
    before = load.instant
    assert wait_until(lambda: load.instant > before, DEADLINE_S, pause_s=0.01), load.failure
    return load.instant


def await_all(cluster: Cluster, executors: dict[str, ManagedProcess]) -> None:
    """Waits until every executor is idle or running, so that it can take over."""
    for name in executors:
        assert wait_until(lambda name=name: cluster.executor_state(name) in ("idle", "running"), DEADLINE_S), name


def results(kafka: str, topics: list[str]) -> list[list[Change]]:
    """All changes of each result topic."""
    return [changes(kafka, topic) for topic in topics]
