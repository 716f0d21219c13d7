"""The program behind `dsms up`, and what the command line calls.

`up` checks and fetches what is needed in the foreground, leaves `python -m dsms.local.supervisor` behind and returns
when all services are ready. The supervisor holds a lock on the data directory for as long as it lives, so a data
directory never has two.
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from dsms.local import detach
from dsms.local.artifacts import Report
from dsms.local.encoding import decode, encode
from dsms.local.prepare import prepare
from dsms.local.process import Cancelled
from dsms.local.services import services
from dsms.local.settings import LocalSettings
from dsms.local.state import LocalState, Phase, ServiceState, process_started, read_state, supervisor_alive, write_state
from dsms.local.supervision import Supervision
from dsms.local.waiting import wait_until
from operators.core.errors import ConfigError, DsmsError, ExternalError

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0


def up(settings: LocalSettings, *, report: Report) -> LocalState:
    """The running installation: started when it does not run yet."""
    running = status(settings.data_dir)
    if running:
        report(f'already running in "{settings.data_dir}"')
        return _wait_running(settings.data_dir, running.supervisor_pid, report)
    claimed = _prepare(settings, report)
    pid = _leave_behind(claimed)
    try:
        return _wait_running(settings.data_dir, pid, report)
    except BaseException:
        _end(pid)
        raise


def status(data_dir: Path) -> LocalState | None:
    """What runs, or None when the supervisor of this directory does not."""
    state = read_state(data_dir.absolute())
    return state if state and supervisor_alive(state) else None


def down(data_dir: Path, *, report: Report) -> bool:
    """Stops everything in reverse order; false when nothing ran."""
    running = status(data_dir)
    if not running:
        return False
    report(f'stopping the services in "{running.data_dir}"')
    _end(running.supervisor_pid)
    return True


def run_foreground(settings: LocalSettings, report: Report) -> None:
    """Runs everything in this process until SIGINT or SIGTERM, and stops it before returning."""
    _supervise(_prepare(settings, report), report)


def _prepare(settings: LocalSettings, report: Report) -> LocalSettings:
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    prepare(os.environ, report)
    return settings.with_ports()


def _leave_behind(settings: LocalSettings) -> int:
    program = [sys.executable, "-m", "dsms.local.supervisor", encode(settings).decode(), str(os.getpid())]
    launcher = [sys.executable, "-I", "-S", detach.__file__, str(settings.data_dir / "supervisor.log")]
    done = subprocess.run([*launcher, *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


def _wait_running(data_dir: Path, pid: int, report: Report) -> LocalState:
    told: set[str] = set()

    def settled() -> bool:
        state = _state_of(data_dir, pid)
        for service in state.services if state else ():
            if service.running and service.name not in told:
                told.add(service.name)
                report(f"{service.name} is ready")
        return (state is not None and state.phase != "starting") or process_started(pid) is None

    if not wait_until(settled, START_TIMEOUT_S):
        raise ExternalError(f"the services did not start within {START_TIMEOUT_S:g} s", hint=_log_hint(data_dir))
    state = _state_of(data_dir, pid)
    if state is None or state.phase != "running":
        raise ExternalError(state.error if state and state.error else "the supervisor ended", hint=_log_hint(data_dir))
    return state


def _state_of(data_dir: Path, pid: int) -> LocalState | None:
    state = read_state(data_dir)
    return state if state and state.supervisor_pid == pid else None


def _log_hint(data_dir: Path) -> str:
    return f'see "{data_dir / "supervisor.log"}"'


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    if not wait_until(lambda: process_started(pid) is None, STOP_TIMEOUT_S):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _supervise(settings: LocalSettings, report: Report, wanted: Callable[[], bool] = lambda: True) -> None:
    board = _Board(settings)
    with _locked(settings.data_dir), _asked_to_stop() as stopping:
        supervision = Supervision(settings, os.environ, services(settings), report, board.services_are)
        board.phase_is("starting")
        try:
            supervision.start(lambda: stopping() or not wanted())
            board.phase_is("running")
            supervision.watch(stopping)
        except Cancelled:
            report("asked to stop while starting")
        except (DsmsError, OSError) as error:
            board.failed(str(error))
            raise
        finally:
            board.phase_is("stopping")
            supervision.stop()
            board.clear()


class _Board:
    """The state file of one supervisor: a failure stays to be read, a normal end removes the file."""

    def __init__(self, settings: LocalSettings) -> None:
        pid = os.getpid()
        self._state = LocalState(
            data_dir=settings.data_dir,
            phase="starting",
            supervisor_pid=pid,
            supervisor_started=process_started(pid) or 0.0,
            cluster=settings.cluster,
            kafka=settings.kafka_address,
            redis=settings.redis_url,
            coordinator=None if settings.services_only else settings.coordinator_url,
        )

    def phase_is(self, phase: Phase) -> None:
        if self._state.error is None:
            self._write(msgspec.structs.replace(self._state, phase=phase))

    def services_are(self, states: tuple[ServiceState, ...]) -> None:
        self._write(msgspec.structs.replace(self._state, services=states))

    def failed(self, error: str) -> None:
        self._write(msgspec.structs.replace(self._state, phase="failed", error=error))

    def clear(self) -> None:
        if self._state.error is None:
            (self._state.data_dir / "state.json").unlink(missing_ok=True)

    def _write(self, state: LocalState) -> None:
        self._state = state
        write_state(state)


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    with (data_dir / "supervisor.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f'"{data_dir}" is in use by another supervisor', hint='see "dsms status"') from error
        yield


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether SIGTERM or SIGINT has come; the earlier handlers are back afterwards."""
    asked: list[int] = []
    earlier = {
        number: signal.signal(number, lambda n, _: asked.append(n)) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _log(line: str) -> None:
    sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}\n")
    sys.stderr.flush()


def main() -> int:
    """Runs what the settings (first argument) say; gives up when the launcher (second) is gone while starting."""
    settings = decode(sys.argv[1], LocalSettings)
    launcher = int(sys.argv[2])
    launched = process_started(launcher)
    try:
        _supervise(settings, _log, lambda: launched is not None and process_started(launcher) == launched)
    except (DsmsError, OSError) as error:
        _log(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
