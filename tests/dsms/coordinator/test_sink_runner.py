"""The coordinator keeps one process for each sink of the catalog, as long as it leads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from connectors.tables.sink_report import SinkReport, read_report
from dsms.coordinator.sinks.allowed_targets import AllowedTargets
from dsms.coordinator.sinks.sink_process import ReaderAccess, SinkProcess, SinkWork
from dsms.coordinator.sinks.sink_runner import SinkRunner
from dsms.local.process import ManagedProcess
from dsms.local.waiting import wait_until
from dsms.model.sink_states import SinkState
from operators.core.errors import ExternalError
from tests.support.statement_cluster import StatementCluster

CREATE = "CREATE SINK s FROM base INTO '{lake}/base'"


class FakeProcess:
    """A process in memory, which reports what a test tells it to."""

    def __init__(self, name: str, work: SinkWork, directory: Path, access: ReaderAccess, *, restart: bool) -> None:
        self.name, self.work, self.access, self.restart = name, work, access, restart
        self.starts, self.ended, self.reported = 0, False, SinkReport(pid=1)
        self.error: Exception | None = None
        self.unreadable: Exception | None = None

    def start_if_due(self) -> None:
        if self.error is not None:
            raise self.error
        self.starts += 1

    def report(self) -> SinkReport:
        if self.unreadable is not None:
            raise self.unreadable
        return self.reported

    def state(self, name: str) -> SinkState:
        return SinkState(self.report().state)

    def end(self) -> None:
        self.ended = True


class Runs:
    """A runner over a catalog, with the processes that it has made."""

    def __init__(self, lake: Path) -> None:
        self.cluster = StatementCluster(sinks=str(lake))
        self.made: list[FakeProcess] = []
        self.runner = SinkRunner(self.cluster.store, AllowedTargets.of(str(lake)), self._make)
        self.runner.start(lambda: ReaderAccess("http://127.0.0.1:1", "token"))
        self.execute(CREATE.format(lake=lake))

    def _make(self, name: str, work: SinkWork, directory: Path, access: ReaderAccess, *, restart: bool) -> FakeProcess:
        self.made.append(FakeProcess(name, work, directory, access, restart=restart))
        return self.made[-1]

    def execute(self, sql: str) -> None:
        self.cluster.execute(sql)
        self.runner.turn()

    @property
    def alive(self) -> list[str]:
        return [process.work.result for process in self.made if not process.ended]


@pytest.fixture
def runs(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("reports")))
    return Runs(tmp_path)


def test_a_process_runs_from_create_to_drop(runs: Runs) -> None:
    assert [(each.name, each.work.result, each.restart) for each in runs.made] == [("s", "base", False)]
    runs.runner.turn()
    assert len(runs.made) == 1 and runs.made[0].starts == 2
    assert runs.runner.states() == {"s": SinkState("running")}
    runs.execute("DROP SINK s")
    assert runs.alive == [] and runs.runner.states() == {}


def test_a_process_starts_again_under_the_new_name_of_its_result(runs: Runs) -> None:
    runs.execute("ALTER VIEW base RENAME TO ground")
    assert runs.alive == ["ground"] and runs.made[1].work.known_as == "base" and not runs.made[1].restart


def test_other_changes_of_the_catalog_leave_it_alone(runs: Runs) -> None:
    runs.execute("CREATE VIEW other AS SELECT k FROM base; COMMENT ON SINK s IS 'x'")
    runs.execute("CREATE OR REPLACE VIEW base AS SELECT k, v FROM R(S) WHERE v > 7")
    assert len(runs.made) == 1 and runs.alive == ["base"]


def test_a_restart_empties_the_target_once(runs: Runs) -> None:
    runs.execute("ALTER SINK s RESTART")
    assert runs.alive == ["base"] and runs.made[1].restart
    runs.made[1].reported = SinkReport(pid=1, cleared=1)
    runs.runner.turn()
    runs.runner.turn()
    assert runs.cluster.store.catalog.sinks["s"].cleared == 1
    assert len(runs.made) == 2
    runs.execute("ALTER SINK s RESTART")
    assert len(runs.made) == 3 and runs.made[2].restart
    after = SinkRunner(runs.cluster.store, AllowedTargets.of("/"), runs._make)  # of the next coordinator
    runs.cluster.store.change(lambda catalog: (catalog, None))
    runs.made[2].reported = SinkReport(pid=1, cleared=2)
    runs.runner.turn()
    after.start(lambda: ReaderAccess("", ""))
    after.turn()
    assert not runs.made[3].restart


def test_a_sink_that_was_created_again_has_a_process_and_a_restart_of_its_own(runs: Runs, tmp_path: Path) -> None:
    runs.execute("ALTER SINK s RESTART")
    runs.made[1].reported = SinkReport(pid=1, cleared=1)
    runs.runner.turn()
    runs.execute(f"DROP SINK s; {CREATE.format(lake=tmp_path)}; ALTER SINK s RESTART")
    assert runs.made[1].ended and runs.made[2].restart
    assert runs.cluster.store.catalog.sinks["s"].cleared == 0


def test_nothing_runs_before_the_start_and_after_the_end(runs: Runs, tmp_path: Path) -> None:
    runs.runner.stop()
    assert runs.alive == []
    runs.execute("CREATE SINK t FROM q INTO '" + str(tmp_path) + "/q'")
    assert runs.alive == []
    idle = SinkRunner(runs.cluster.store, AllowedTargets.of(str(tmp_path)), runs._make)
    idle.turn()
    assert runs.alive == []


def test_a_target_that_a_link_moves_outside_is_not_written(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "base").symlink_to("/etc")
    runs.runner.turn()
    assert runs.alive == []
    state = runs.runner.states()["s"]
    assert state.name == "failed" and "is not allowed" in state.reason
    assert "; allowed:" not in state.reason  # readers see the reason, but need not know the other targets
    (tmp_path / "base").unlink()
    runs.runner.turn()
    assert runs.alive == ["base"] and runs.runner.states()["s"].name == "running"


def test_a_process_that_cannot_start_is_tried_again(runs: Runs) -> None:
    runs.made[0].error = ExternalError("no memory")
    runs.runner.turn()
    assert runs.runner.states()["s"] == SinkState("retrying", "no memory")
    runs.made[0].error = None
    runs.runner.turn()
    assert runs.runner.states()["s"].name == "running"


def test_a_report_that_cannot_be_read_does_not_end_the_turn(runs: Runs, tmp_path: Path) -> None:
    runs.made[0].unreadable = OSError(24, "Too many open files")
    runs.execute(f"CREATE SINK t FROM q INTO '{tmp_path}/q'")
    states = runs.runner.states()
    assert states["s"].name == "retrying" and "Too many open files" in states["s"].reason
    assert states["t"].name == "running"


def test_the_same_reason_is_logged_once(runs: Runs) -> None:
    runs.made[0].error = ExternalError("no memory")
    with capture_logs() as logged:
        runs.runner.turn()
        runs.runner.turn()
    assert [entry["event"] for entry in logged] == ["a sink cannot be started"]


def test_a_process_that_cannot_be_created_is_tried_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def start(*given: object) -> None:
        tried.append(given)
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(ManagedProcess, "start", start)
    work = SinkWork("base", "/lake/base", "base", None, None, changes=False, restarts=0)
    process = SinkProcess("s", work, tmp_path, ReaderAccess("", ""), restart=False)
    with pytest.raises(OSError, match="unavailable"):
        process.start_if_due()
    process.start_if_due()
    assert len(tried) == 1


def test_a_damaged_report_is_an_error_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"\xff{")
    with pytest.raises(ExternalError, match='report" is damaged'):
        read_report(tmp_path / "report")


def test_a_process_that_crashes_is_shown_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = SinkWork("base", "/lake/base", "base", None, None, changes=False, restarts=0)
    program = (sys.executable, "-c", "raise KeyError('k')")
    monkeypatch.setattr(SinkWork, "command", lambda *_, **__: program)
    process = SinkProcess("s", work, tmp_path, ReaderAccess("", ""), restart=False)
    process.start_if_due()
    assert wait_until(lambda: process.state("s").name == "retrying", 20)
    assert process.state("s").reason == "the process ended with exit code 1: KeyError: 'k'"


def test_last_words_have_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = SinkWork("base", "x://${secret:user}@h/d", "base", None, None, changes=False, restarts=0)
    monkeypatch.setenv("DSMS_SECRET_USER", "s3cret")
    said = "print('much\\n' * 1_000_000); raise KeyError('k' * 275 + 's3cret')"
    monkeypatch.setattr(SinkWork, "command", lambda *_, **__: (sys.executable, "-c", said))
    process = SinkProcess("s", work, tmp_path, ReaderAccess("", ""), restart=False)
    process.start_if_due()
    assert wait_until(lambda: process.state("s").name == "retrying", 20)
    assert process.state("s").reason.endswith("k***'") and "s3c" not in process.state("s").reason


def test_command_lines_have_neither_targets_nor_tokens(tmp_path: Path) -> None:
    work = SinkWork("base", "postgresql://db/x", "base", None, None, changes=False, restarts=0)
    command = " ".join(work.command(ReaderAccess("http://127.0.0.1:1", "t0ken"), tmp_path, restart=False))
    assert "postgresql" not in command and "t0ken" not in command
