"""Settings that services refuse when they start, with an error of one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--batch-seconds", "0.001"), "error: target_batch_seconds must be between 0.01 and 600\n"),
        (("--trigger-interval", "61"), "error: trigger_interval_seconds must be between 0 and 60\n"),
        (("--policy", "lifo"), 'error: policy "lifo" not found'),
    ],
)
def test_an_executor_refuses_options_that_cannot_hold(tmp_path: Path, options: tuple[str, str], said: str) -> None:
    where = ("--kafka", "k:1", "--redis", "redis://r", "--coordinator", "http://c", "--data-dir", str(tmp_path))
    command = [sys.executable, "-m", "dsms.executor", *where, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(said) and "Traceback" not in done.stderr
