"""Starts services in order, restarts those that exit, and stops them in reverse order."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from dsms.local.artifacts import Report
from dsms.local.disk_reserve import DiskReserve, advice
from dsms.local.process import Cancelled
from dsms.local.services import Instance, Service
from dsms.local.settings import LocalSettings
from dsms.local.state import ServiceState
from dsms.local.unavailable import answering_unavailable
from dsms.local.waiting import wait_until
from operators.core.errors import DsmsError

WATCH_PAUSE_S = 0.1
ROOM_PAUSE_S = 1.0
FIRST_BACKOFF_S = 0.25
LONGEST_BACKOFF_S = 30.0
HEALTHY_AFTER_S = 60.0


@dataclass(slots=True)
class Watched:
    """A service that is kept running. The pause before a restart doubles with each consecutive failure."""

    name: str
    instance: Instance
    restarts: int = 0
    _failures: int = 0
    _started: float = 0.0
    _next_start: float | None = None

    def start(self, cancelled: Callable[[], bool]) -> None:
        """Starts the service, and waits until it is ready."""
        self._started = time.monotonic()
        self._next_start = None
        self.instance.start(cancelled)

    def due(self) -> bool:
        """Whether the service is down and the pause before its restart is over."""
        if self.instance.alive:
            return False
        now = time.monotonic()
        if self._next_start is None:
            self._failures = 0 if now - self._started > HEALTHY_AFTER_S else self._failures + 1
            self._next_start = now + backoff_s(self._failures)
        return now >= self._next_start

    def clear(self) -> None:
        """Kills the remaining processes of the service, before a restart."""
        self.restarts += 1
        self.instance.kill()

    def state(self) -> ServiceState:
        """The present state of the service."""
        alive = self.instance.alive
        return ServiceState(name=self.name, pid=self.instance.pid, running=alive, restarts=self.restarts)


def backoff_s(failures: int) -> float:
    """The pause before the next start after a number of consecutive failures.

    >>> [backoff_s(n) for n in (0, 1, 2, 3, 20)]
    [0.0, 0.25, 0.5, 1.0, 30.0]
    """
    return 0.0 if failures == 0 else min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failures - 1))


@dataclass(slots=True)
class Supervision:
    """The services of one data directory. `changed` is called whenever their state changes. `on_pause` is called with
    the reason when the services stop for lack of disk space, and with None when they run again."""

    settings: LocalSettings
    environ: Mapping[str, str]
    services: tuple[Service, ...]
    report: Report
    changed: Callable[[tuple[ServiceState, ...]], None]
    on_pause: Callable[[str | None], None] = lambda _: None
    disk: DiskReserve | None = None
    _watched: list[Watched] = field(default_factory=list)

    def start(self, stopping: Callable[[], bool]) -> None:
        """Starts all services in order; the first failure is raised."""
        for service in self.services:
            self.report(f"starting {service.name}")
            watched = Watched(service.name, service.create(self.settings, self.environ))
            self._watched.append(watched)
            watched.start(stopping)
            self._publish()

    def watch(self, stopping: Callable[[], bool]) -> None:
        """Keeps all services running until `stopping` holds."""
        while not stopping():
            if self.disk is not None and (shortage := self.disk.shortage()) is not None:
                self._wait_for_space(self.disk, shortage, stopping)
            for watched in self._watched:
                if watched.due() and not stopping():
                    self._restart(watched, stopping)
            wait_until(lambda: stopping() or self._any_due(), 1.0, pause_s=WATCH_PAUSE_S)

    def stop(self) -> None:
        """Stops all services, the last started first."""
        for watched in reversed(self._watched):
            self.report(f"stopping {watched.name}")
            watched.instance.stop()
            self._publish()

    def _wait_for_space(self, disk: DiskReserve, shortage: str, stopping: Callable[[], bool]) -> None:
        """Stops all services, which could lose data that they cannot write, and starts them again when the disk has
        enough free space. Meanwhile, calls of the coordinator are answered with the reason.
        """
        hint = advice(disk.reserve)
        self.report(f"{shortage}; stopping all services; {hint}")
        self.on_pause(f"{shortage}; {hint}")
        self.stop()
        settings = self.settings
        alone = settings.services_only
        with nullcontext() if alone else answering_unavailable(settings.host, settings.http_port, shortage, hint):
            while not stopping() and disk.shortage(stopped=True) is not None:
                wait_until(stopping, ROOM_PAUSE_S)
        if not stopping():
            self.report("there is room on the disk again")
            for watched in self._watched:
                self._start(watched, stopping)
            self.on_pause(None)

    def _any_due(self) -> bool:
        return any([watched.due() for watched in self._watched])

    def _restart(self, watched: Watched, stopping: Callable[[], bool]) -> None:
        self.report(f"{watched.name} exited unexpectedly, restarting it")
        self._publish()
        watched.clear()
        self._start(watched, stopping)

    def _start(self, watched: Watched, stopping: Callable[[], bool]) -> None:
        try:
            watched.start(stopping)
            self.report(f"{watched.name} is running again")
        except Cancelled:
            return
        except (DsmsError, OSError) as error:
            self.report(str(error))
        self._publish()

    def _publish(self) -> None:
        self.changed(tuple(watched.state() for watched in self._watched))
