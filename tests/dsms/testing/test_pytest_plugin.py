"""The pytest plugin, in a separate pytest process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

SOURCES = "REGISTER SOURCE s (a INT) FROM t; CREATE STREAM every OVER s KEY NULL; CREATE VIEW v AS SELECT a FROM every"


def test_changes(dsms_session):
    dsms_session.execute(SOURCES)
    dsms_session.push("s", [{"a": 1, "ts": 3}, {"a": 2, "ts": 4}])
    dsms_session.advance(9)
    assert dsms_session.changes("v") == [("+", {"a": 1}, 3), ("+", {"a": 2}, 4)]


@pytest.mark.dsms(partitions=3, batch_records=2)
def test_marked(dsms_session):
    assert dsms_session.partitions == 3
    assert dsms_session.batch_records == 2


def test_that_fails(dsms_session):
    dsms_session.execute(SOURCES)
    dsms_session.push("s", [{"a": "no number", "ts": 3}])
    dsms_session.advance(9)
    assert dsms_session.changes("v") != []
"""


def run(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a separate pytest process over `TESTS`."""
    (directory / "conftest.py").write_text('pytest_plugins = ["dsms.testing.pytest_plugin"]\n')
    (directory / "test_them.py").write_text(TESTS)
    strict = ["-p", "no:cacheprovider", "--strict-markers"]
    command = [sys.executable, "-m", "pytest", "-q", *strict, *options, "test_them.py"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)


def test_the_fixture_is_a_session_and_failures_show_dead_letters(tmp_path: Path) -> None:
    output = run(tmp_path).stdout
    assert "1 failed, 2 passed" in output
    assert "dead letters" in output
    assert "s: " in output and "no number" in output.split("dead letters")[1]


def test_each_test_runs_for_each_size_of_batches(tmp_path: Path) -> None:
    output = run(tmp_path, "--dsms-batches", "1,7", "-k", "changes", "-vv").stdout
    assert "2 passed" in output
    assert "[batches of 1]" in output
    assert "[batches of 7]" in output


@pytest.mark.parametrize("sizes", ["0", "few"])
def test_invalid_batch_sizes_are_refused(tmp_path: Path, sizes: str) -> None:
    assert f'--dsms-batches: "{sizes}" is not a number of records' in run(tmp_path, "--dsms-batches", sizes).stderr
