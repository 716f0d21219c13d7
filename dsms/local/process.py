"""A child process that never outlives this process.

The child leads its own session; so Ctrl-C in a terminal reaches only this process, which then stops its children in
order. On Linux, the kernel kills the child when this process ends in any way. A thread that lives as long as this
process starts the child, because for the kernel the parent ends when the *thread* that started the child ends.
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
    """Returns False, for a start that nobody cancels."""
    return False


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The program to run, the file to which its output is appended, and a test of whether it is ready."""

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
        """The process id of the last start; None before the first start."""
        return self._child.pid if self._child else None

    @property
    def alive(self) -> bool:
        """Whether the child runs; if it has ended, its exit status is collected."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The child's exit code; None while it runs, or before the first start."""
        return None if self._child is None else self._child.poll()

    def start(self, cancelled: Callable[[], bool] = never) -> None:
        """Starts the child, and waits until it is ready. If it fails or is cancelled, raises ExternalError, and no
        process stays.
        """
        if self.alive:
            return
        try:
            self._child = _spawner().submit(_spawn, self.spec).result()
            self._wait_ready(cancelled)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Terminates the child; after the stop time-out, kills the remaining processes of its tree."""
        if self._child is None:
            return
        tree = _tree(self._child.pid)
        if self.alive:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(self.spec.stop_timeout_s)
        self._kill(tree)

    def kill(self) -> None:
        """Kills the child and its process tree at once."""
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
