"""The process of a sink reports how it proceeds, and empties the target once for each restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors.tables.sink import Position, PositionLost
from connectors.tables.sink_report import SinkReport, read_report
from dsms.client.errors import PositionGone, Unavailable
from dsms.sinks import __main__ as program
from operators.core.errors import ExternalError, UserError

TASK = '{"result": "hot", "target": "", "restart": true, "known_as": "first"}'


class Follower:
    """Stands for `follow`: it does what a test tells it to."""

    def __init__(self, *steps: Any) -> None:
        self.steps, self.tasks = steps, list[Any]()

    def __call__(self, api: Any, task: Any, listener: Any) -> None:
        self.tasks.append(task)
        for step in self.steps:
            if isinstance(step, Exception):
                raise step
            step(listener)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSMS_SINK", "postgresql://ann:${secret:db}@h/x")
    monkeypatch.setenv("DSMS_SECRET_DB", "p4ss")
    monkeypatch.setenv("DSMS_TOKEN", "t")
    return tmp_path / "report"


def run(file: Path, monkeypatch: pytest.MonkeyPatch, *steps: Any) -> tuple[Follower, SinkReport]:
    follower = Follower(*steps)
    monkeypatch.setattr(program, "follow", follower)
    program.main(TASK, "http://127.0.0.1:1", str(file), "1")
    report = read_report(file)
    assert report is not None
    return follower, report


def test_reports_say_what_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower, report = run(
        file,
        monkeypatch,
        lambda listener: listener.starts(Position("o1:4", 7.0)),
        lambda listener: listener.written(3, "o1:7"),
    )
    assert follower.tasks[0].target == "postgresql://ann:p4ss@h/x" and follower.tasks[0].known_as == "first"
    assert (report.state, report.position) == ("running", "o1:7") and report.at


def test_a_restart_empties_the_target_only_until_it_is_empty(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = ExternalError("the process died")
    assert run(file, monkeypatch, died)[0].tasks[0].restart
    follower, report = run(file, monkeypatch, lambda listener: listener.cleared(), died)
    assert follower.tasks[0].restart and report.cleared == 1
    follower, report = run(file, monkeypatch, died)
    assert not follower.tasks[0].restart and report.cleared == 1


@pytest.mark.parametrize(
    ("error", "state", "restart"),
    [
        (PositionLost("gone"), "failed", True),
        (PositionGone("gone", hint="start again"), "failed", True),
        (UserError("another process writes"), "failed", False),
        (ExternalError("away"), "retrying", False),
        (Unavailable("away"), "retrying", False),
    ],
)
def test_the_end_is_reported(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, state: str, restart: bool
) -> None:
    _, report = run(file, monkeypatch, error)
    assert (report.state, report.restart) == (state, restart) and report.reason.startswith(str(error)[:4])


def test_a_missing_secret_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSMS_SECRET_DB")
    _, report = run(file, monkeypatch)
    assert report.state == "failed" and "DSMS_SECRET_DB" in report.reason


def test_reasons_have_no_passwords(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, report = run(file, monkeypatch, ExternalError("cannot reach postgresql://ann:p4ss@h/x"))
    assert "p4ss" not in report.reason
    for said in ('no such user "p4ss"', "cannot log in with p4ss"):
        assert "p4ss" not in run(file, monkeypatch, UserError(said))[1].reason
        assert "p4ss" not in run(file, monkeypatch, lambda it, said=said: it.fails(ExternalError(said), 1))[1].reason
