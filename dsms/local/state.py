"""The state of the services on this machine, as the supervisor last wrote it to the data directory."""

import os
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from dsms.local.encoding import decode, encode

FILE_NAME = "state.json"

Phase = Literal["starting", "running", "stopping", "failed"]


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """The process of a service, and the number of its restarts."""

    name: str
    pid: int | None
    running: bool
    restarts: int = 0


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the installation; the addresses are those of the last start."""

    data_dir: Path
    phase: Phase
    supervisor_pid: int
    supervisor_started: float
    cluster: str
    kafka: str
    redis: str
    coordinator: str | None
    postgres: str | None = None
    token: Path | None = None
    """The file with the token of this installation, if `dsms up` has created one."""
    services: tuple[ServiceState, ...] = ()
    error: str | None = None
    #: Why all services are stopped until the disk has enough free space; None if they are not stopped.
    paused_reason: str | None = msgspec.field(default=None, name="waits")


def write_state(state: LocalState) -> None:
    """Replaces the state file atomically."""
    file = state.data_dir / FILE_NAME
    fresh = file.with_suffix(".json.new")
    fresh.write_bytes(msgspec.json.format(encode(state), indent=2))
    os.replace(fresh, file)


def read_state(data_dir: Path) -> LocalState | None:
    """The last written state, whose supervisor may have ended; None if no readable state exists."""
    try:
        return decode((data_dir / FILE_NAME).read_bytes(), LocalState)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def process_started(pid: int) -> float | None:
    """The start time of a process; None if it is not running. It identifies the process together with its id, which may
    be reused.

    >>> process_started(os.getpid()) is not None
    True
    """
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def supervisor_alive(state: LocalState) -> bool:
    """Whether the supervisor that wrote the state is running; another process with the same id does not count."""
    return process_started(state.supervisor_pid) == state.supervisor_started


def running_state(data_dir: Path) -> LocalState | None:
    """The state of the installation in a directory; None if its supervisor is not running."""
    state = read_state(data_dir.absolute())
    return state if state and supervisor_alive(state) else None
