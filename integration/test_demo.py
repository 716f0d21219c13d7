"""The demo as users run it: a process that ends by itself or by Ctrl-C and leaves no process behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dsms.local.waiting import wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

DEADLINE_S = 400
#: Figures 2 and 3 of the paper side by side, with the records that arrived.
HOT_ROOMS = """\
  arrived         Rooms         Q3            HotRooms1     Q4
  <a,78>1         +<a,78>1
  <a,105>2        u<a,105>2     +<a,105>2     +<a,105>2     +<a,105>2
  <b,70>3         +<b,70>3
  <c,95>4         +<c,95>4      +<c,95>4      +<c,95>4
  <a,76>5         u<a,76>5      -<a>5         -<a>5         -<a>5
  <c,103>6        u<c,103>6     u<c,103>6     u<c,103>6     +<c,103>6
"""


class Demo:
    """A running demo in a separate process group, as under a terminal."""

    def __init__(self, data: Path, *options: str) -> None:
        self._data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dsms.demo", *options], start_new_session=True, text=True,
            env={**os.environ, "DSMS_DATA": str(data)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.output = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.output += line

    def saw(self, text: str) -> bool:
        return wait_until(lambda: text in self.output or self.process.poll() is not None, DEADLINE_S) and (
            text in self.output
        )

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        code = self.process.wait(DEADLINE_S)
        self._reader.join()
        return code

    def leftovers(self) -> list[str]:
        """The running processes whose environment contains the data directory of this demo."""
        return [" ".join(process.cmdline()[:4]) for process in psutil.process_iter() if self._ours(process)]

    def _ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("DSMS_DATA") == str(self._data) and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


@pytest.fixture
def demo(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Demo]:
    running = Demo(tmp_path, *getattr(request, "param", ()))
    yield running
    if running.process.poll() is None:
        running.interrupt()
        running.ended()


def test_the_demo_shows_what_the_paper_prints_and_ends(demo):
    started = time.monotonic()
    assert demo.ended() == 0, demo.output
    assert HOT_ROOMS in demo.output
    assert "  <b,85>5         u<b,85>5      +<b,85>5\n" in demo.output
    assert "All results are exactly those in the paper.\nThe cluster is stopped.\n" in demo.output
    assert not demo.leftovers()
    assert time.monotonic() - started < DEADLINE_S


@pytest.mark.parametrize("moment", ["kafka is ready", "> Updates: "])
def test_ctrl_c_stops_everything(demo, moment):
    assert demo.saw(moment), demo.output
    assert len(demo.leftovers()) > 1
    demo.interrupt()
    assert demo.ended() == 130, demo.output
    assert wait_until(lambda: not demo.leftovers(), 120), demo.leftovers()


@pytest.mark.parametrize("demo", [("--live", "--rate", "50")], indirect=True)
def test_the_live_demo_shows_what_queries_make_of_bids_until_ctrl_c(demo):
    shown = re.compile(r"busiest auctions of the last minute: \d+ \(\d+\)")
    assert wait_until(lambda: shown.search(demo.output) or demo.process.poll() is not None, DEADLINE_S)
    assert shown.search(demo.output), demo.output
    assert re.search(r"The console: http://127\.0\.0\.1:\d+/console/", demo.output), demo.output
    demo.interrupt()
    assert demo.ended() == 130, demo.output
    assert wait_until(lambda: not demo.leftovers(), 120), demo.leftovers()
