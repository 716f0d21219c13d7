"""The watchdog ends processes that hang, also those that hang in a C library, and no others."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Makes progress for a second, much longer than the limit, then runs the given code.
PROGRAM = """
import ctypes, threading, time
from dsms.local.watchdog import Watchdog
watchdog = Watchdog(limit_s=0.5)
for _ in range(20):
    watchdog.progress()
    time.sleep(0.05)
print("worked", flush=True)
{then}
"""


def run(then: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(then=then)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "hang", ["threading.Event().wait(50)", "ctypes.PyDLL(None).sleep(50)"], ids=["in Python", "with the lock held"]
)
def test_hanging_process_ends_and_shows_where_it_hangs(hang: str) -> None:
    ended = run(hang)
    assert (ended.returncode, ended.stdout) == (1, "worked\n")
    assert "Timeout" in ended.stderr and 'File "<string>", line 9 in <module>' in ended.stderr


def test_process_ends_when_its_wall_clock_is_set_back_and_not_when_it_is_set_forward() -> None:
    """Calls of librdkafka in other threads would hang for as long, while the watched thread goes on."""
    clock = "wall = [1e9]\nwatchdog = Watchdog(wall=lambda: wall[0])\n"
    steps = "for wall[0] in (1e9, 1e9 + 3600, 1e9 + 3595):\n    watchdog.progress()\nprint('forward', flush=True)\n"
    ended = run(f"{clock}{steps}wall[0] = 1e9\nwatchdog.progress()\nprint('never')")
    assert (ended.returncode, ended.stdout) == (1, "worked\nforward\n")
    assert ended.stderr.startswith("the wall clock was set back by 3595 s")
