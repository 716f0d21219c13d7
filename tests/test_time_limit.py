"""A test that would begin after the time of `make test` is skipped with the reason, and its fixtures are not set up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.time_limit import END, REASON, pytest_runtest_setup

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest


@pytest.fixture(scope="module", autouse=True)
def service():
    print("a service was started")


def test_any():
    assert True
"""


@pytest.mark.parametrize(("seconds", "outcome"), [(-1, "1 skipped"), (600, "1 passed")])
def test_no_test_begins_when_the_time_is_over(tmp_path: Path, seconds: int, outcome: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-ra", "-s", "-p", "no:cacheprovider", "-p", "tests.support.time_limit"]
    environment = {**os.environ, END: str(time.time() + seconds), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [*command, "test_it.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert outcome in ran.stdout
    assert ("a service was started" in ran.stdout) == (seconds > 0) and (REASON in ran.stdout) == (seconds < 0)


@pytest.mark.parametrize("directory", ["tests", "integration"])
def test_tests_of_both_directories_have_the_limit(directory: str) -> None:
    assert import_module(f"{directory}.conftest").pytest_runtest_setup is pytest_runtest_setup
