"""A child process that never outlives this process.

The child leads its own session, so that Ctrl-C in a terminal reaches only us and we stop it in order. On Linux the
kernel kills it when we die, however we die. It is started from a thread that lives as long as we do, because the
kernel takes the end of the starting *thread* for the end of the parent.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import psutil

from dsms.local import die_with_parent
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

LOG_TAIL_LINES = 15


def never() -> bool:
    """False: the start is never cancelled."""
    return False


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run, the file that its output is appended to, and a test whether it is ready."""

    name: str
    argv: tuple[str, ...]
    log_file: Path
    ready: Callable[[], bool]
    env: Mapping[str, str] | None = None
    start_timeout_s: float = 60.0
    stop_timeout_s: float = 20.0


class Cancelled(ExternalError):
    """The start was cancelled because a stop was requested; the child has ended."""


@dataclass(slots=True)
class ManagedProcess:
    """A child process; stopping it also ends every process that it has started."""

    spec: ProcessSpec
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int | None:
        """The process id of the last start, or None before it."""
        return self._child.pid if self._child else None

    @property
    def alive(self) -> bool:
        """Whether the child runs; reaps it when it has ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The child's exit code; None while it runs, or before the first start."""
        return None if self._child is None else self._child.poll()

    def start(self, cancelled: Callable[[], bool] = never) -> None:
        """Starts the child, and returns when it is ready; otherwise raises, and leaves no process running."""
        if self.alive:
            return
        try:
            self._child = _spawner().submit(_spawn, self.spec).result()
            self._wait_ready(cancelled)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Terminates the child, and after the stop time-out kills what is left of its process tree."""
        if self._child is None:
            return
        tree = _tree(self._child.pid)
        if self.alive:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(self.spec.stop_timeout_s)
        self._kill(tree)

    def kill(self) -> None:
        """Kills the child and its tree at once."""
        if self._child is not None:
            self._kill(_tree(self._child.pid))

    def _kill(self, tree: list[psutil.Process]) -> None:
        assert self._child is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGKILL)
        for process in tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._child.wait()
        psutil.wait_procs(tree, timeout=self.spec.stop_timeout_s)

    def _wait_ready(self, cancelled: Callable[[], bool]) -> None:
        settled = wait_until(lambda: cancelled() or not self.alive or self.spec.ready(), self.spec.start_timeout_s)
        if cancelled():
            raise Cancelled(f'start of "{self.spec.name}" was cancelled')
        if not self.alive:
            raise ExternalError(f'"{self.spec.name}" exited while it was starting', hint=self._log_hint())
        if not settled:
            seconds = f"{self.spec.start_timeout_s:g} s"
            raise ExternalError(f'"{self.spec.name}" was not ready within {seconds}', hint=self._log_hint())

    def _log_hint(self) -> str:
        lines = self.spec.log_file.read_text("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f'see "{self.spec.log_file}", whose last lines are', *lines])


@cache
def _spawner() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="spawner")


def _spawn(spec: ProcessSpec) -> subprocess.Popen[bytes]:
    spec.log_file.parent.mkdir(parents=True, exist_ok=True)
    launcher = (sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()))
    with spec.log_file.open("ab") as log:
        return subprocess.Popen(
            [*launcher, *spec.argv],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=None if spec.env is None else dict(spec.env),
            start_new_session=True,
        )


def _tree(pid: int) -> list[psutil.Process]:
    """The descendants of the child, including those in other process groups and those that have outlived the child."""
    tree = {process.pid: process for process in psutil.process_iter() if _session(process.pid) == pid}
    with suppress(psutil.NoSuchProcess):
        tree |= {process.pid: process for process in psutil.Process(pid).children(recursive=True)}
    tree.pop(pid, None)
    return list(tree.values())


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
