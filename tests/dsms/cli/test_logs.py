"""`dsms logs` shows the last lines of each service, and follows what is added, also after a log was replaced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dsms.cli.logs import last_lines, lines_from
from dsms.cli.main import run


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "kafka.log").write_text("k1\nk2\n")
    (tmp_path / "coordinator.log").write_text("c1\nc2\nc3\n")
    return tmp_path


def test_the_last_lines_of_all_services_with_their_names(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "-n", "2", "--data-dir", str(data_dir)]) == 0
    assert capsys.readouterr().out.splitlines() == ["kafka: k1", "kafka: k2", "coordinator: c2", "coordinator: c3"]


def test_one_service(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logs", "coordinator", "--data-dir", str(data_dir)]) == 0
    assert capsys.readouterr().out.splitlines() == ["c1", "c2", "c3"]


def test_an_unknown_service_and_a_directory_without_logs_are_refused(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logs", "redis", "--data-dir", str(data_dir)]) == 1
    assert "have: kafka, coordinator" in capsys.readouterr().err
    assert run(["logs", "--data-dir", str(tmp_path / "none")]) == 1
    assert "no logs in" in capsys.readouterr().err


def test_new_lines_are_followed(data_dir: Path) -> None:
    program = [sys.executable, "-c", "from dsms.cli.main import main; main()"]
    command = [*program, "logs", "coordinator", "-f", "-n", "1", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            assert following.stdout.readline() == "c3\n"
            with (data_dir / "coordinator.log").open("a") as log:
                log.write("c4\n")
            assert following.stdout.readline() == "c4\n"
        finally:
            following.kill()


def test_a_log_that_has_become_shorter_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\nthree\n")
    lines, end = last_lines(log, 1)
    assert (lines, end) == (["three"], 14)
    log.write_text("new\n")
    assert lines_from(log, end) == (["new"], 4)


def test_a_line_is_shown_once_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntw")
    assert last_lines(log, 9) == (["one"], 4)
    log.write_text("one\ntwo\n\n")
    assert lines_from(log, 4) == (["two", ""], 9)
