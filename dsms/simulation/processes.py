"""Simulated processes of the service, and the supervisor that starts them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.simulation.scheduler import Process, Scheduler
from operators.core.errors import DsmsError

#: Seconds after which the supervisor starts a process again that has ended by itself.
_RESTART_S = 1.0


@dataclass(eq=False)
class Service:
    """A process that is started again whenever it has ended. `main` is the program of one incarnation."""

    scheduler: Scheduler
    name: str
    main: Callable[[Process], None]
    process: Process = field(init=False)
    #: How often it was started.
    starts: int = 0
    #: How far the wall clock of its host is ahead.
    skew_s: float = 0.0
    #: Errors that no program of the service should end with.
    faults: list[BaseException] = field(default_factory=list)

    def start(self) -> None:
        """Starts an incarnation."""
        self.starts += 1
        self.process = process = Process(self.name, skew_s=self.skew_s)
        self.scheduler.spawn(lambda: self._run(process), "main", process)

    def kill(self, away_s: float) -> None:
        """Kills the process; it is started again after some time."""
        self.scheduler.trace.add(f"{self.scheduler.now:.6f} killed {self.name}")
        self.scheduler.kill(self.process)
        self._start_after(away_s)

    def pause(self, for_s: float) -> None:
        """Stops the process for some time, as SIGSTOP does."""
        process, now = self.process, self.scheduler.now
        self.scheduler.trace.add(f"{now:.6f} paused {self.name} for {for_s:g} s")
        self.scheduler.stop(process)
        self.scheduler.call_at(now + for_s, lambda: self.scheduler.go_on(process))

    def step_clock(self, by_s: float) -> None:
        """Changes the wall clock of the host."""
        self.scheduler.trace.add(f"{self.scheduler.now:.6f} clock of {self.name} jumps by {by_s:g} s")
        self.skew_s += by_s
        self.process.skew_s = self.skew_s

    def _run(self, process: Process) -> None:
        ended = ""
        try:
            self.main(process)
        except DsmsError as error:
            ended = str(error)
        except Exception as error:  # noqa: BLE001 the verdict reports it
            self.faults.append(error)
            ended = repr(error)
        self.scheduler.record(f"the process ended: {ended}")
        self.scheduler.kill(process)
        self._start_after(_RESTART_S)

    def _start_after(self, seconds: float) -> None:
        before = self.process
        self.scheduler.call_at(self.scheduler.now + seconds, lambda: self.start() if self.process is before else None)
