"""Runs are written while a target continues. A task ends only when all runs are stored, and fails if a write fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka import Message

from dsms.runtime.lanes.revision import Revision
from dsms.runtime.lanes.stage_contexts import stage_context
from dsms.runtime.stages.result_messages import ResultEncoding
from dsms.runtime.stages.target_stage import TargetStage
from dsms.runtime.stages.target_task import TargetTask
from dsms.runtime.stages.wire import StateStored, envelopes
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, sent, start

SQL = """
REGISTER SOURCE S (k BIGINT) FROM t TAGGED NONE; CREATE STREAM T OVER S KEY NULL;
CREATE QUERY Q AS SELECT k, COUNT(*) AS n FROM T GROUP BY k
"""


LOG = [Message(topic="t", partition=0, offset=at, key=None, value=b'{"k": 1}', timestamp=(1, at)) for at in range(4)]


class Slow:
    """A store whose writes end only after the task has sent its messages."""

    def __init__(self) -> None:
        self.handed_on, self.stored = threading.Event(), list[str]()

    def read(self, name: str) -> pl.DataFrame:
        raise AssertionError("there is no state yet")

    def write(self, runs: Mapping[str, pl.DataFrame]) -> Callable[[], None]:
        def wait() -> None:
            assert self.handed_on.wait(10), "the messages wait for the runs"
            self.stored += runs

        return wait


def test_a_task_hands_its_messages_on_and_ends_after_its_writes() -> None:
    store = Slow()
    batches = iter(task(store)(sources()))
    while not any(isinstance(envelope.message, StateStored) for envelope in envelopes(next(batches))):
        assert not store.stored
    store.handed_on.set()
    assert list(batches) is not None
    assert store.stored


def test_a_write_that_fails_fails_the_task() -> None:
    class Broken(Slow):
        def write(self, runs: Mapping[str, pl.DataFrame]) -> Callable[[], None]:
            def fail() -> None:
                raise OSError("no room")

            return fail

    with pytest.raises(OSError, match="no room"):
        list(task(Broken())(sources()))


def revision() -> Revision:
    return start(apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))[0], 1)


def sources() -> list[pa.RecordBatch]:
    return sent(World({"t": {0: LOG}}), revision(), 10, 1, None)


def task(store: Slow) -> TargetTask:
    context = stage_context([revision()], "e1", 1, ResultEncoding())
    return TargetTask(TargetStage(context, 1), lambda: store)
