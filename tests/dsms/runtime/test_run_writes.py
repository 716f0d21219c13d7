"""Runs are written while a target goes on; a task ends only when all of them are stored, and fails with them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Message

from dsms.runtime.stages import target_task as target_stage
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import World, epoch, start

SQL = """
REGISTER SOURCE S (k BIGINT) FROM t TAGGED NONE; CREATE STREAM T OVER S KEY NULL;
CREATE QUERY Q AS SELECT k, COUNT(*) AS n FROM T GROUP BY k
"""


def _run(monkeypatch: pytest.MonkeyPatch, store: object) -> None:
    log = [
        Message(topic="t", partition=0, offset=at, key=None, value=b'{"k": 1}', timestamp=(1, at)) for at in range(4)
    ]
    catalog, _ = apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))
    world = World({"t": {0: log}}).attach(monkeypatch)
    monkeypatch.setattr(target_stage, "worker_run_store", lambda _: store)
    epoch(world, start(catalog, 1), 10, 1)


def test_a_task_hands_its_rows_on_and_ends_after_its_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[str] = []
    handed_on = threading.Event()
    original = target_stage.TargetStage.__call__

    class Slow:
        read = None

        def write(self, runs: dict[str, object]) -> None:
            assert handed_on.wait(10), "the rows wait for the runs"
            threading.Event().wait(0.05)
            stored.extend(runs)

    def watched(self: target_stage.TargetStage, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in original(self, given):
            if "runs" in batch["kind"].to_pylist():
                handed_on.set()
            yield batch

    monkeypatch.setattr(target_stage.TargetStage, "__call__", watched)
    _run(monkeypatch, Slow())
    assert stored


def test_a_write_that_fails_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        read = None

        def write(self, runs: dict[str, object]) -> None:
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        _run(monkeypatch, Broken())
