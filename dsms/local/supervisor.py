"""The supervisor of the services on this machine, and the functions behind `dsms up` and `down`.

`up` prepares the services in the foreground, starts `python -m dsms.local.supervisor` as a daemon and returns when all
services are ready. The supervisor locks the data directory while it runs, so a data directory never has two
supervisors.
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
from dsms.local.access_token import TOKEN_FILE, made_tokens
from dsms.local.artifacts import Report
from dsms.local.disk_reserve import advice
from dsms.local.encoding import decode, encode
from dsms.local.prepare import prepare
from dsms.local.process import Cancelled
from dsms.local.services import services
from dsms.local.settings import LocalSettings
from dsms.local.state import LocalState, Phase, ServiceState, process_started, read_state, running_state, write_state
from dsms.local.supervision import Supervision
from dsms.local.waiting import wait_until
from operators.core.errors import ConfigError, DsmsError, ExternalError

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0


def up(settings: LocalSettings, *, report: Report) -> LocalState:
    """Starts the installation unless it is running, waits until all services are ready, and returns its state."""
    running = running_state(settings.data_dir)
    if running:
        report(f'a cluster is already running in "{settings.data_dir}"')
        return _wait_running(settings.data_dir, running.supervisor_pid, report)
    prepared = _prepare(settings, report)
    pid = _start_daemon(prepared)
    try:
        return _wait_running(settings.data_dir, pid, report)
    except BaseException:
        _end(pid)
        raise


def down(data_dir: Path, *, report: Report) -> bool:
    """Stops all services in reverse order. Returns False if no installation was running."""
    running = running_state(data_dir)
    if not running:
        return False
    report(f'stopping the services in "{running.data_dir}"')
    _end(running.supervisor_pid)
    return True


def run_foreground(settings: LocalSettings, report: Report) -> None:
    """Supervises the services in this process until SIGINT or SIGTERM; then stops them and returns."""
    _supervise(_prepare(settings, report), report)


def _prepare(settings: LocalSettings, report: Report) -> LocalSettings:
    """Prepares this machine and the data directory for the services. Returns the settings with claimed ports. Raises
    ExternalError if the disk is too full."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    if (disk := settings.disk) is not None and (shortage := disk.shortage()) is not None:
        raise ExternalError(shortage, hint=advice(disk.reserve))
    prepare(os.environ, report)
    prepared = settings.with_ports()
    if prepared.makes_token:
        made_tokens(prepared.data_dir)
    return prepared


def _start_daemon(settings: LocalSettings) -> int:
    program = [sys.executable, "-m", "dsms.local.supervisor", encode(settings).decode(), str(os.getpid())]
    detached = [sys.executable, "-I", "-S", detach.__file__, str(settings.data_dir / "supervisor.log")]
    done = subprocess.run([*detached, *program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


def _wait_running(data_dir: Path, pid: int, report: Report) -> LocalState:
    reported: set[str] = set()

    def settled() -> bool:
        state = _state_of(data_dir, pid)
        for service in state.services if state else ():
            if service.running and service.name not in reported:
                reported.add(service.name)
                report(f"{service.name} is ready")
        return (state is not None and state.phase != "starting") or process_started(pid) is None

    if not wait_until(settled, START_TIMEOUT_S):
        raise ExternalError(f"the services did not start within {START_TIMEOUT_S:g} s", hint=_log_hint(data_dir))
    state = _state_of(data_dir, pid)
    if state is None or state.phase != "running":
        reason = state.error if state and state.error else "the supervisor of the services exited"
        raise ExternalError(reason, hint=_log_hint(data_dir))
    if state.paused_reason:
        raise ExternalError(state.paused_reason)
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


def _supervise(settings: LocalSettings, report: Report, launcher_runs: Callable[[], bool] = lambda: True) -> None:
    file = _StateFile(settings)
    with _locked(settings.data_dir), _stop_requests() as stopping:
        callbacks = file.set_services, file.set_paused
        supervision = Supervision(settings, os.environ, services(settings), report, *callbacks, settings.disk)
        file.set_phase("starting")
        try:
            supervision.start(lambda: stopping() or not launcher_runs())
            file.set_phase("running")
            supervision.watch(stopping)
        except Cancelled:
            report("stop requested while starting")
        except (DsmsError, OSError) as error:
            file.set_error(str(error))
            raise
        finally:
            file.set_phase("stopping")
            supervision.stop()
            file.clear()


class _StateFile:
    """The state file of one supervisor. The supervisor removes the file at the end. After an error it keeps the file,
    from which `up` reads the error."""

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
            postgres=None if settings.services_only else settings.postgres_address,
            token=settings.data_dir / TOKEN_FILE if settings.makes_token else None,
        )

    def set_phase(self, phase: Phase) -> None:
        if self._state.error is None:
            self._write(msgspec.structs.replace(self._state, phase=phase))

    def set_services(self, states: tuple[ServiceState, ...]) -> None:
        self._write(msgspec.structs.replace(self._state, services=states))

    def set_paused(self, reason: str | None) -> None:
        """Records why all services wait for free space on the disk; None if they do not wait."""
        self._write(msgspec.structs.replace(self._state, paused_reason=reason))

    def set_error(self, error: str) -> None:
        self._write(msgspec.structs.replace(self._state, phase="failed", error=error))

    def clear(self) -> None:
        if self._state.error is None:
            (self._state.data_dir / "state.json").unlink(missing_ok=True)

    def _write(self, state: LocalState) -> None:
        """Writes the state. On a full disk the previous state stays, and the services keep running."""
        self._state = state
        try:
            write_state(state)
        except OSError as error:
            _log(f"the state could not be written: {error}")


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    with (data_dir / "supervisor.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f'another supervisor is using "{data_dir}"', hint='see "dsms status"') from error
        yield


@contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether SIGTERM or SIGINT was received; restores the handlers at the end."""
    received: list[int] = []
    earlier = {
        number: signal.signal(number, lambda n, _: received.append(n)) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _log(line: str) -> None:
    with suppress(OSError):  # the disk of the log may be full
        sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}\n")
        sys.stderr.flush()


def main() -> int:
    """Supervises the services for the settings in the first argument, and returns the exit code. The second argument is
    the process id of the launcher; if the launcher ends before the services are ready, the start is cancelled.
    """
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
