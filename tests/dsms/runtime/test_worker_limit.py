"""The limit of a worker's memory: exactly the processes that exceed it end, regardless of what takes the memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsms.runtime.memory.worker_limit import EXIT_CODE, VARIABLE

LIMIT_MB = 700
TAKES = {
    "polars": "held = pl.select(pl.int_range(1 << 29))",
    "numpy": "held = [np.ones(1 << 21) for _ in range(200)]",
    "arrow": "held = pa.concat_arrays([pa.array(['x' * 1_000_000] * 100, pa.large_string())] * 30)",
    "python": "held = [bytes(range(256)) * 4_000 for _ in range(4_000)]",
}

#: Sets the limit twice, as two tasks of a worker do.
_BEGINS = """import mmap, time, numpy as np, polars as pl, pyarrow as pa
from dsms.runtime.memory.worker_limit import limit_memory
limit_memory()
limit_memory()"""


def run(code: str, limit_mb: str = str(LIMIT_MB)) -> subprocess.CompletedProcess[str]:
    """Runs the code in a process that has limited its memory."""
    program = f"{_BEGINS}\n{code}\nif 'held' in globals(): time.sleep(10)"
    environ = {**os.environ, VARIABLE: limit_mb, "RUST_BACKTRACE": "0", "POLARS_MAX_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("taker", TAKES)
def test_process_above_its_memory_limit_ends(taker: str) -> None:
    ended = run(TAKES[taker])
    assert ended.returncode == EXIT_CODE, ended.stderr
    assert f"but its limit is {LIMIT_MB:,} MiB ({VARIABLE})" in ended.stderr


def test_small_allocations_and_reserved_memory_do_not_end_the_process() -> None:
    ended = run("some = bytes(200 << 20), mmap.mmap(-1, 2 << 30); time.sleep(0.3)")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("limit", ["", "none"])
def test_process_without_a_limit_is_not_ended(limit: str) -> None:
    assert run("some = np.ones(1 << 27); time.sleep(0.3)", limit).returncode == 0


def test_an_allocation_far_above_the_limit_is_refused_at_once() -> None:
    ended = run("try:\n    held = bytes(64 << 30)\nexcept MemoryError:\n    raise SystemExit(3)")
    assert ended.returncode == 3
