"""Long-running tasks and jobs share the slots of a real Spark session, also if workers are killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import SparkContext

from dsms.local.waiting import wait_until
from dsms.runtime.stages.wire import ArrowOutbox, Unread, envelopes
from dsms.spark.errors import SparkFailed, WorkerDied
from dsms.spark.scratch import scratch_directory
from dsms.spark.session import SparkSession, spark_session
from dsms.spark.task_slots import TaskSlots
from operators.core.errors import ExternalError

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Echo:
    """An order that says a number and the process that carries it out; with an error it fails."""

    number: int
    error: Exception | None = None

    def run(self) -> Iterator[pa.RecordBatch]:
        if self.error is not None:
            raise self.error
        outbox = ArrowOutbox(revision=self.number)
        outbox.send("o1", Unread(os.getpid()))
        yield outbox.batch()


@dataclass(frozen=True)
class Crash:
    """An order that kills its process."""

    def run(self) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from ()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark") / "scratch"
    with scratch_directory(scratch):
        session = spark_session("local[2]", scratch, 2)
        yield session
        session.stop()
        _end_jvm()


def _end_jvm() -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def slots(session: SparkSession, tmp_path: Path) -> Iterator[TaskSlots]:
    slots = TaskSlots(session, tmp_path)
    yield slots
    with slots.for_job():
        assert job(session) == 10


def job(session: SparkSession) -> int:
    """Runs a job with more tasks than slots, and returns its number of rows."""
    rows = session.range(10, numPartitions=4)
    return int(rows.mapInArrow(lambda batches: batches, rows.schema).toArrow().num_rows)


def said(slots: TaskSlots, orders: Sequence[Echo]) -> list[tuple[int, int]]:
    """The numbers of the orders, each with the process."""
    answers = slots.run(cast(Any, orders))
    found = [envelope for batch in answers for envelope in envelopes(batch)]
    return [(envelope.revision, cast(Unread, envelope.message).records) for envelope in found]


def test_orders_go_round_the_tasks(slots: TaskSlots) -> None:
    first = said(slots, [Echo(number) for number in range(5)])
    assert sorted(number for number, _ in first) == list(range(5))
    by_number = dict(first)
    assert by_number[0] == by_number[2] == by_number[4] != by_number[1] == by_number[3]
    assert dict(said(slots, [Echo(9)])) == {9: by_number[0]}  # a task keeps what it knows


def test_jobs_and_orders_of_several_threads_alternate(slots: TaskSlots, session: SparkSession) -> None:
    def orders() -> int:
        return sum(number for _ in range(10) for number, _ in said(slots, [Echo(1), Echo(1)]))

    def jobs() -> int:
        total = 0
        for _ in range(5):
            with slots.for_job():
                total += job(session)
        return total

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(each) for each in (orders, jobs, orders, jobs)]
        assert [each.result(timeout=200) for each in asked] == [20, 50, 20, 50]


def test_an_error_of_an_order_leaves_the_tasks(slots: TaskSlots) -> None:
    before = dict(said(slots, [Echo(1), Echo(2)]))
    with pytest.raises(ExternalError, match="redis is full"):
        slots.run(cast(Any, [Echo(1), Echo(2, ExternalError("redis is full"))]))
    assert dict(said(slots, [Echo(1), Echo(2)])) == before


def test_a_bug_is_named_and_other_tasks_begin(slots: TaskSlots) -> None:
    with pytest.raises(SparkFailed, match="division"):
        slots.run(cast(Any, [Echo(1, ZeroDivisionError("division"))]))
    assert len(said(slots, [Echo(1), Echo(2)])) == 2


def test_a_worker_that_is_killed_by_an_order_is_replaced(slots: TaskSlots) -> None:
    with pytest.raises(WorkerDied):
        slots.run(cast(Any, [Echo(1), Crash()]))
    assert [number for number, _ in said(slots, [Echo(1), Echo(2)])] == [1, 2]


def test_a_worker_that_is_killed_meanwhile_disturbs_nobody(slots: TaskSlots) -> None:
    _, victim = said(slots, [Echo(1), Echo(2)])[1]
    os.kill(victim, signal.SIGKILL)
    tasks = slots._tasks
    assert tasks is not None and wait_until(lambda: tasks.ended, 30)
    found = said(slots, [Echo(1), Echo(2)])
    assert [number for number, _ in found] == [1, 2] and victim not in dict(found).values()


def test_without_a_session_nobody_waits_for_ever(slots: TaskSlots, tmp_path: Path) -> None:
    """Sockets cannot be created in a directory that is gone."""
    broken = TaskSlots(slots._session, tmp_path / "gone")
    with pytest.raises(OSError, match="gone"):
        broken.run(cast(Any, [Echo(1)]))
    with broken.for_job():
        pass
    assert wait_until(lambda: not [each for each in threading.enumerate() if each.name == "long-tasks-job"], 30)
