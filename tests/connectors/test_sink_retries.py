"""A sink whose target fails for a while writes each change once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from connectors.tables.sink import Batch, Position
from connectors.tables.sink_content import Content
from connectors.tables.sink_database import DatabaseSink
from connectors.tables.sink_delta import DeltaSink
from connectors.tables.sink_retries import LONGEST_S, RetriedSink
from operators.core.errors import ExternalError, UserError
from tests.connectors.test_sinks import BAG, changes, url
from tests.support import lake_tables


class Failing(DeltaSink):
    """Fails before or after the commits that `plan` says, as when a connection breaks."""

    plan: list[str] = []

    def take(self, changes: Batch, token: str) -> None:
        planned = self.plan.pop(0) if self.plan else "works"
        if planned == "before":
            raise ExternalError("no route to the store")
        super().take(changes, token)
        if planned == "after":
            raise ExternalError("the answer was lost")
        if planned == "for good":
            raise ExternalError("the store is gone", retryable=False)


def retried(directory: Path, plan: list[str], pauses: list[float]) -> RetriedSink:
    Failing.plan = plan
    return RetriedSink(lambda: Failing(str(directory), Content(BAG)), lambda _, pause_s: pauses.append(pause_s))


@pytest.mark.parametrize(
    ("plan", "paused"),
    [(["after"], [1.0]), (["before", "before", "after"], [1.0, 2.0, 4.0]), (["works", "after", "before"], [1.0, 1.0])],
)
def test_a_change_is_written_once_whether_or_not_the_failed_write_took_effect(
    tmp_path: Path, plan: list[str], paused: list[float]
) -> None:
    pauses: list[float] = []
    sink = retried(tmp_path, plan, pauses)
    for at in range(3):
        sink.take(changes(("+", at, "a", at, None)), f"o1:{at + 1}")
    assert lake_tables.rows(lake_tables.delta_files(tmp_path), "n") == [(0,), (1,), (2,)]
    position = sink.position()
    assert isinstance(position, Position) and position.token == "o1:3"
    assert pauses == paused
    sink.close()


def test_the_pauses_become_longer_up_to_a_minute(tmp_path: Path) -> None:
    pauses: list[float] = []
    retried(tmp_path, ["before"] * 8, pauses).take(changes(("+", 0, "a", 0, None)), "o1:1")
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_S, LONGEST_S]


def test_a_failure_that_does_not_pass_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="the store is gone"):
        retried(tmp_path, ["for good"], []).take(changes(("+", 0, "a", 0, None)), "o1:1")


def test_another_sink_that_wrote_during_the_failure_is_noticed(tmp_path: Path) -> None:
    def write_meanwhile(*_: object) -> None:
        DeltaSink(str(tmp_path), Content(BAG)).take(changes(("+", 0, "a", 9, None)), "o1:9")

    Failing.plan = ["before"]
    sink = RetriedSink(lambda: Failing(str(tmp_path), Content(BAG)), write_meanwhile)
    with pytest.raises(UserError, match="another process has written"):
        sink.take(changes(("+", 0, "a", 0, None)), "o1:1")


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself waits 5 seconds for the lock, and then reports it."""
    waits: list[str] = []
    other = sqlite3.connect(tmp_path / "kept.db", isolation_level=None)

    def release(error: ExternalError, _: float) -> None:
        waits.append(str(error))
        other.execute("ROLLBACK")

    sink = RetriedSink(lambda: DatabaseSink(url(tmp_path), "kept", BAG), release)
    other.execute("BEGIN EXCLUSIVE")
    sink.take(changes(("+", 3, "a", 1, "0.50")), "o1:1")
    assert [("locked" in each) for each in waits] == [True]
    assert other.execute("SELECT room, n FROM kept").fetchall() == [("a", 1)]
    other.close()
    sink.close()


def test_a_target_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    def unreachable() -> DeltaSink:
        raise ExternalError("no route to the store")

    with pytest.raises(ExternalError, match="no route"):
        RetriedSink(unreachable, lambda *_: None)
