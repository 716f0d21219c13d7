"""Supervision over scripted instances: order, restarts, cancellation."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dsms.local.process import Cancelled
from dsms.local.services import Service, coordinator_command, executor_command
from dsms.local.settings import LocalSettings, load_settings
from dsms.local.state import LocalState, ServiceState, process_started, read_state, supervisor_alive, write_state
from dsms.local.supervision import Supervision
from operators.core.errors import ExternalError

SETTINGS = LocalSettings(data_dir=Path("/data"))


@dataclass
class Scripted:
    """Records the calls in a journal; its first `failing` starts fail."""

    name: str
    journal: list[str]
    failing: int = 0
    alive: bool = False
    pid: int | None = None

    def start(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.journal.append(f"start {self.name}")
        if cancelled():
            raise Cancelled("asked")
        if self.failing:
            self.failing -= 1
            raise ExternalError(f"{self.name} is broken")
        self.alive = True

    def stop(self) -> None:
        self.journal.append(f"stop {self.name}")
        self.alive = False

    def kill(self) -> None:
        self.journal.append(f"kill {self.name}")
        self.alive = False


@dataclass
class Stage:
    """Two scripted services under supervision."""

    journal: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    published: list[tuple[ServiceState, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.instances = {name: Scripted(name, self.journal) for name in ("first", "second")}
        services = tuple(Service(name, lambda *_, i=i: i) for name, i in self.instances.items())
        self.supervision = Supervision(SETTINGS, {}, services, self.reported.append, self.published.append)


def test_starts_in_order_and_stops_in_reverse():
    stage = Stage()
    stage.supervision.start(lambda: False)
    stage.supervision.stop()
    assert stage.journal == ["start first", "start second", "stop second", "stop first"]


def test_a_dead_service_is_restarted_until_it_runs():
    stage = Stage()
    stage.supervision.start(lambda: False)
    second = stage.instances["second"]
    second.alive, second.failing = False, 1
    stage.supervision.watch(lambda: second.alive)
    assert stage.journal[2:] == ["kill second", "start second", "kill second", "start second"]
    assert [(state.name, state.running, state.restarts) for state in stage.published[-1]] == [
        ("first", True, 0),
        ("second", True, 2),
    ]
    assert "second is broken" in stage.reported


def test_a_failure_of_the_first_start_is_raised_and_the_later_ones_are_not_started():
    stage = Stage()
    stage.instances["first"].failing = 1
    with pytest.raises(ExternalError, match="first is broken"):
        stage.supervision.start(lambda: False)
    stage.supervision.stop()
    assert stage.journal == ["start first", "stop first"]


def test_a_stop_request_ends_the_start():
    stage = Stage()
    with pytest.raises(Cancelled):
        stage.supervision.start(lambda: True)


def test_the_commands_of_our_programs():
    settings = LocalSettings(data_dir=Path("/data"), kafka_port=1, redis_port=2, http_port=3, cluster="c")
    assert " ".join(coordinator_command(settings)[1:]) == (
        "-m dsms.coordinator --kafka 127.0.0.1:1 --redis redis://127.0.0.1:2/0 --http-port 3 --cluster c --fragments 1 "
        "--tokens /data/tokens.toml"
    )
    assert " ".join(executor_command(settings, "executor-1")[1:]) == (
        "-m dsms.executor --kafka 127.0.0.1:1 --redis redis://127.0.0.1:2/0 --coordinator http://127.0.0.1:3 "
        "--cluster c --data-dir /data/executor-1 --id executor-1 --state-dir /data/state --state-memory 64 MB"
    )


def test_the_coordinator_gets_the_load_settings():
    settings = load_settings({"DSMS_LOAD_DATABASES": "true"}, {"data_dir": "/data", "load_dir": "/files"})
    assert " ".join(coordinator_command(settings)).endswith("--load-dir /files --load-databases")


def test_the_coordinator_gets_the_limits():
    settings = load_settings({"DSMS_LIMITS": "columns=20 queries=5"}, {"data_dir": "/data"})
    assert coordinator_command(settings)[-2:] == ["--limits", "columns=20 queries=5"]


def state_of(data_dir: Path, pid: int, started: float) -> LocalState:
    return LocalState(
        data_dir=data_dir,
        phase="running",
        supervisor_pid=pid,
        supervisor_started=started,
        cluster="local",
        kafka="127.0.0.1:1",
        redis="redis://127.0.0.1:2/0",
        coordinator=None,
        services=(ServiceState(name="kafka", pid=7, running=True),),
    )


def test_the_state_is_read_back_as_written(tmp_path: Path):
    assert read_state(tmp_path) is None
    state = state_of(tmp_path, 1, 2.5)
    write_state(state)
    assert read_state(tmp_path) == state
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_another_process_with_the_same_id_is_not_the_supervisor(tmp_path: Path):
    started = process_started(os.getpid())
    assert started is not None
    assert supervisor_alive(state_of(tmp_path, os.getpid(), started))
    assert not supervisor_alive(state_of(tmp_path, os.getpid(), started - 1000))
