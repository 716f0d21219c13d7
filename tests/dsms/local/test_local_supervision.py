"""Supervision of fake services: order, restarts, cancellation."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec
import pytest

from dsms.local.disk_reserve import DiskReserve
from dsms.local.ports import free_port
from dsms.local.process import Cancelled
from dsms.local.services import Service, coordinator_command, executor_command
from dsms.local.settings import LocalSettings, load_settings
from dsms.local.state import LocalState, ServiceState, process_started, read_state, supervisor_alive, write_state
from dsms.local.supervision import Supervision
from operators.core.errors import ConfigError, ExternalError

SETTINGS = LocalSettings(data_dir=Path("/data"))


@dataclass
class Scripted:
    """A fake service: records its calls in a journal. Its first `failing` starts fail."""

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
    """Two fake services under supervision."""

    journal: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    published: list[tuple[ServiceState, ...]] = field(default_factory=list)
    pauses: list[str | None] = field(default_factory=list)
    disk: DiskReserve | None = None

    def __post_init__(self) -> None:
        self.instances = {name: Scripted(name, self.journal) for name in ("first", "second")}
        services = tuple(Service(name, lambda *_, i=i: i) for name, i in self.instances.items())
        settings = msgspec.structs.replace(SETTINGS, http_port=free_port())
        self.address = settings.coordinator_url
        heard = self.reported.append, self.published.append, self.pauses.append
        self.supervision = Supervision(settings, {}, services, *heard, self.disk)


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


def test_the_coordinator_gets_the_targets_of_sinks(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"DSMS_SINKS": "lake, iceberg://prod"}, {"data_dir": "/data"})
    assert coordinator_command(settings)[-2:] == ["--sinks", f"{tmp_path}/lake,iceberg://prod"]


def test_executors_get_the_sandbox_of_python():
    settings = load_settings({"DSMS_PYTHON_SANDBOX": "prefer"}, {"data_dir": "/data"})
    assert executor_command(settings, "executor-1")[-2:] == ["--python-sandbox", "prefer"]
    with pytest.raises(ConfigError, match="python_sandbox"):
        load_settings({"DSMS_PYTHON_SANDBOX": "on"}, {"data_dir": "/data"})


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


def test_full_disk_stops_all_services_until_space_is_free():
    """Here the test gives the free space of the disk; `integration/test_local_services.py` fills a real disk."""
    free, answers = [500, 90, 150], dict[str, httpx.Response]()

    def look(_: Path) -> int:
        if len(free) > 1:
            return free.pop(0)
        if not answers:
            for path in ("/healthz", "/readyz"):
                answers[path] = httpx.get(stage.address + path, trust_env=False)
            answers["sql"] = httpx.post(f"{stage.address}/v1/statements", json={"sql": "SHOW VIEWS"}, trust_env=False)
            assert not any(instance.alive for instance in stage.instances.values())
            free[0] = 200
        return free[0]

    stage = Stage(disk=DiskReserve(Path("/data"), 100, look))
    stage.supervision.start(lambda: False)
    stage.supervision.watch(lambda: stage.pauses[-1:] == [None])
    assert stage.journal[2:] == ["stop second", "stop first", "start first", "start second"]
    reason = 'the disk of "/data" has 90 bytes free, but the services need 100 bytes'
    assert stage.pauses[0] is not None and stage.pauses[0].startswith(f"{reason}; free disk space: the services start")
    assert answers["/healthz"].status_code == 200
    assert (answers["/readyz"].status_code, "free disk space" in answers["/readyz"].json()["disk"]) == (503, True)
    refused = answers["sql"]
    assert (refused.status_code, refused.json()["error"]["message"]) == (503, reason)
    assert [state.running for state in stage.published[-1]] == [True, True]


def test_a_stop_ends_the_wait_for_room():
    stage = Stage(disk=DiskReserve(Path("/data"), 100, lambda _: 0))
    stage.supervision.start(lambda: False)
    stage.supervision.watch(lambda: bool(stage.pauses))
    assert stage.journal[2:] == ["stop second", "stop first"] and stage.pauses[0] is not None


def test_a_full_disk_does_not_end_the_supervisor(tmp_path: Path):
    """A limit of file sizes replaces the full disk: neither the state nor the log can be written."""
    program = f"""
import os, resource, signal, sys
from pathlib import Path
from dsms.local import supervisor
from dsms.local.settings import LocalSettings
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = supervisor._StateFile(LocalSettings(data_dir=Path({str(tmp_path)!r})))
file.set_phase("running")
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.stderr = open({str(tmp_path / "log")!r}, "w")
file.set_paused("the disk is full")
supervisor._log("the disk is full")
print("goes on", flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "goes on\n"
    state = read_state(tmp_path)
    assert state is not None and state.phase == "running"
