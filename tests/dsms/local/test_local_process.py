"""A managed process is either ready or ended; it is never left running unnoticed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dsms.local.process import Cancelled, ManagedProcess, ProcessSpec
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

FAMILY = """
import os, pathlib, signal, subprocess, sys, time
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600)
"""


def family(tmp_path: Path, *arguments: str, stop_timeout_s: float = 10.0) -> tuple[ManagedProcess, Path]:
    """A process with a child in a separate process group. It is ready when it has written the child's id."""
    file = tmp_path / "child.pid"
    spec = ProcessSpec(
        name="family",
        argv=(sys.executable, "-c", FAMILY, str(file), *arguments),
        log_file=tmp_path / "log",
        ready=lambda: file.exists() and file.read_text() != "",
        stop_timeout_s=stop_timeout_s,
    )
    return ManagedProcess(spec), file


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_whole_tree_ends(tmp_path: Path, end: str):
    process, file = family(tmp_path)
    process.start()
    assert process.alive
    grandchild = int(file.read_text())
    getattr(process, end)()
    assert not process.alive
    assert wait_until(lambda: gone(grandchild), 5)


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path):
    process, _ = family(tmp_path, "deaf", stop_timeout_s=0.2)
    process.start()
    process.stop()
    assert not process.alive


def test_exiting_while_starting_shows_the_end_of_the_log(tmp_path: Path):
    argv = (sys.executable, "-c", "print('no such disk'); raise SystemExit(3)")
    process = ManagedProcess(ProcessSpec("broken", argv, tmp_path / "log", ready=lambda: False))
    with pytest.raises(ExternalError, match=r'(?s)"broken" exited while it was starting; see ".*log".*no such disk'):
        process.start()


def test_not_ready_in_time_is_killed(tmp_path: Path):
    argv = (sys.executable, "-c", "import time; time.sleep(600)")
    process = ManagedProcess(ProcessSpec("slow", argv, tmp_path / "log", ready=lambda: False, start_timeout_s=0.3))
    with pytest.raises(ExternalError, match='"slow" was not ready within 0.3 s'):
        process.start()
    assert not process.alive


@pytest.mark.parametrize("why", [KeyboardInterrupt, Cancelled])
def test_cancelling_the_start_leaves_no_process(tmp_path: Path, why: type[BaseException]):
    def interrupted() -> bool:
        raise why("now")

    argv = (sys.executable, "-c", "import time; time.sleep(600)")
    process = ManagedProcess(ProcessSpec("slow", argv, tmp_path / "log", ready=interrupted))
    with pytest.raises(why):
        process.start()
    assert process.pid is not None
    assert not process.alive


def test_process_can_be_started_again_after_a_crash(tmp_path: Path):
    process, file = family(tmp_path)
    process.start()
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert wait_until(lambda: not process.alive, 5)
    grandchild = int(file.read_text())
    process.kill()
    assert wait_until(lambda: gone(grandchild), 5)
    process.start()
    assert process.alive
    assert process.pid != first
    process.kill()


PARENT = """
import pathlib, sys, threading
from dsms.local.process import ManagedProcess, ProcessSpec
argv = (sys.executable, "-c", "import time; time.sleep(600)")
spec = ProcessSpec("child", argv, pathlib.Path(sys.argv[1]), lambda: True)
process = ManagedProcess(spec)
starter = threading.Thread(target=process.start)
starter.start()
starter.join()
print(process.pid, process.alive, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_no_child_outlives_a_killed_parent_but_it_outlives_the_starting_thread(tmp_path: Path):
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, alive = parent.stdout.readline().split()
        assert alive == "True"
        parent.kill()
    assert wait_until(lambda: gone(int(pid)), 5)
