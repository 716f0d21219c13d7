"""The scheduler of a simulation: it runs tasks one at a time, in virtual time, and every choice comes from a seed.

A task is product code that runs unchanged, as a greenlet. It gives up control only where it would wait: at a lock, an
event, a sleep, or a request to a simulated neighbour. Then the scheduler chooses the next task at random. Time passes
only if no task can run: the clock jumps to the next instant for which a task waits.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from greenlet import getcurrent, greenlet

#: Seconds since 1970 at which simulations begin, unless they say otherwise.
EPOCH_S = 1_700_000_000.0
#: How long a real thread that is no part of a simulation waits at a time, in seconds.
_FOREIGN_S = 0.01
#: The number of events that a trace keeps; its digest covers all events.
KEPT_EVENTS = 20_000


class Ended(BaseException):
    """Raised in each task when the simulation ends. No product code catches it."""


class Stuck(AssertionError):
    """Raised if tasks run without end although no time passes."""


@dataclass(eq=False)
class Process:
    """A simulated process: its tasks, its clock, and whether it runs.

    `skew_s` is how far its wall clock is ahead of the true time; its monotonic clock is never wrong.
    """

    name: str
    alive: bool = True
    #: Whether the process is stopped, as by SIGSTOP: its tasks do not run, but time passes.
    stopped: bool = False
    skew_s: float = 0.0
    #: Called when the process is killed, for example to close its connections.
    on_kill: list[Callable[[], None]] = field(default_factory=list)


@dataclass(eq=False)
class Task:
    """A thread of a simulated process."""

    name: str
    process: Process
    run: Callable[[], None]
    #: None before the first step: a greenlet belongs to the thread that creates it, which is the one that runs it.
    greenlet: greenlet | None = None
    #: The number of the wait that the task is in. A wake-up for an earlier wait has no effect.
    wait: int = 0
    woken: bool = False
    ready: bool = False
    done: bool = False
    error: BaseException | None = None


class Signal:
    """What tasks wait for. It has no state of its own: it wakes only those that wait at that moment."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Task, int]] = deque()


class Trace:
    """The events of a simulation, as lines of text. Two runs with equal digests had the same events."""

    def __init__(self) -> None:
        self.events: deque[str] = deque(maxlen=KEPT_EVENTS)
        self.count = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, event: str) -> None:
        """Adds an event."""
        self.count += 1
        self.events.append(event)
        self._digest.update(event.encode())
        self._digest.update(b"\n")

    @property
    def last(self) -> str:
        """The last event."""
        return self.events[-1] if self.events else "none"

    @property
    def digest(self) -> str:
        """A hash of all events."""
        return self._digest.hexdigest()


class Scheduler:
    """Runs tasks in virtual time.

    >>> scheduler, said = Scheduler(seed=1), []
    >>> def talk(text, seconds):
    ...     scheduler.sleep(seconds)
    ...     said.append((text, scheduler.now))
    >>> process = Process("example")
    >>> _ = scheduler.spawn(lambda: talk("later", 3600), "a", process)
    >>> _ = scheduler.spawn(lambda: talk("soon", 1), "b", process)
    >>> scheduler.run_until(7200.0); said, scheduler.now
    ([('soon', 1.0), ('later', 3600.0)], 7200.0)
    >>> scheduler.close()
    """

    def __init__(self, seed: int, most_steps_an_instant: int = 200_000, epoch_s: float = EPOCH_S) -> None:
        self.random = Random(seed)
        #: Seconds since 1970 at which the simulation begins.
        self.epoch_s = epoch_s
        #: Seconds since the simulation began.
        self.now = 0.0
        self.steps = 0
        self.trace = Trace()
        self.closed = False
        #: The task that runs; None while the scheduler itself does.
        self.current: Task | None = None
        #: The tasks that have failed with an error that nobody caught.
        self.failed: list[Task] = []
        self._most_steps = most_steps_an_instant
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._tasks: dict[Task, None] = {}
        #: The caller of `run_until`.
        self._hub, self._thread = getcurrent(), threading.get_ident()

    # for tasks

    def spawn(self, run: Callable[[], object], name: str, process: Process) -> Task:
        """Starts a task of a process."""
        task = Task(name, process, lambda: self._run(task, run))
        self._tasks[task] = None
        if process.alive and not self.closed:
            self._make_ready(task)
        return task

    def sleep(self, seconds: float) -> None:
        """Waits for some virtual seconds."""
        self.wait(Signal(), seconds)

    def pause(self) -> None:
        """Lets other tasks run first, or not: a point at which tasks interleave."""
        self.sleep(0.0)

    def wait(self, signal: Signal, timeout_s: float | None = None) -> bool:
        """Waits for a signal; returns whether it came in time."""
        task = self._own_task()
        if task is None:
            time.sleep(_FOREIGN_S)
            return False
        task.wait, task.woken = task.wait + 1, False
        number = task.wait
        signal.waiting.append((task, number))
        if timeout_s is not None:
            self.call_at(self.now + max(timeout_s, 0.0), lambda: self._wake(task, number, woken=False))
        self._hub.switch()
        if self.closed:
            raise Ended
        if not task.woken:  # otherwise those that wait in vain would stay in the list of a signal that is never sent
            with suppress(ValueError):  # a signal that was sent between the timeout and now has removed it
                signal.waiting.remove((task, number))
        return task.woken

    def send(self, signal: Signal, most: int | None = None) -> None:
        """Wakes tasks that wait for a signal: all, or at most a number of them."""
        left = len(signal.waiting) if most is None else most
        while signal.waiting and left > 0:
            task, number = signal.waiting.popleft()
            left -= self._wake(task, number, woken=True)

    def call_at(self, time_s: float, call: Callable[[], object]) -> None:
        """Calls a function, which must not wait, at an instant of virtual time."""
        heapq.heappush(self._timers, (time_s, next(self._numbers), call))

    def record(self, event: str) -> None:
        """Adds an event to the trace, with the time and the task."""
        task = self.current
        who = "-" if task is None else f"{task.process.name}/{task.name}"
        self.trace.add(f"{self.now:.6f} {who} {event}")

    @property
    def process(self) -> Process | None:
        """The process of the running task."""
        return self.current.process if self.current is not None else None

    # for the simulation

    def run_until(self, time_s: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Runs until an instant, or until `stop` holds. Raises Stuck if tasks run without end at one instant."""
        steps, instant, self._hub, self._thread = 0, self.now, getcurrent(), threading.get_ident()
        while not stop():
            if self._ready:
                steps = steps + 1 if self.now == instant else 0
                instant = self.now
                if steps > self._most_steps:
                    raise Stuck(f"{self._most_steps} steps at {self.now:.3f} s; the last: {self.trace.last}")
                self._step()
            elif self._timers and self._timers[0][0] <= time_s:
                at, _, call = heapq.heappop(self._timers)
                self.now = max(self.now, at)
                call()
            else:
                self.now = max(self.now, time_s)
                return

    def kill(self, process: Process) -> None:
        """Ends a process as SIGKILL does: none of its tasks runs another step, and none cleans up."""
        process.alive = False
        self._ready = [task for task in self._ready if task.process is not process]
        for call in process.on_kill:
            call()

    def stop(self, process: Process) -> None:
        """Stops a process as SIGSTOP does."""
        process.stopped = True

    def go_on(self, process: Process) -> None:
        """Lets a stopped process go on."""
        process.stopped = False

    def close(self) -> None:
        """Ends all tasks: each that waits raises Ended, so that its stack is freed."""
        self.closed, self._hub, self._thread = True, getcurrent(), threading.get_ident()
        for task in list(self._tasks):
            if task.greenlet:
                self.current, task.greenlet.parent = task, self._hub
                task.greenlet.throw(Ended)
        self.current = None
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    def _own_task(self) -> Task | None:
        """The running task; None in a real thread that is not the scheduler's, such as one of Polars, or one that
        product code started before the simulation: it sees the same stand-ins, and is no part of the simulation."""
        if threading.get_ident() != self._thread:
            return None
        if self.closed:
            raise Ended
        task = self.current
        if task is None or getcurrent() is not task.greenlet:
            return None
        return task

    def _run(self, task: Task, run: Callable[[], object]) -> None:
        try:
            if not self.closed:
                run()
        except Ended:
            pass
        except BaseException as error:  # noqa: BLE001 the simulation reports it
            task.error = error
            self.failed.append(task)
        finally:
            task.done = True
            self._tasks.pop(task, None)

    def _step(self) -> None:
        able = [at for at, task in enumerate(self._ready) if not task.process.stopped]
        if not able:
            self._wait_for_stopped()
            return
        at = able[self.random.randrange(len(able))] if len(able) > 1 else able[0]
        self._ready[at], self._ready[-1] = self._ready[-1], self._ready[at]
        task = self._ready.pop()
        task.ready = False
        self.steps += 1
        self.current = task
        if task.greenlet is None:
            task.greenlet = greenlet(task.run)
        task.greenlet.parent = self._hub
        task.greenlet.switch()
        self.current = None

    def _wait_for_stopped(self) -> None:
        """Passes time while only stopped processes could run."""
        if self._timers:
            at, _, call = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            call()
        else:
            self.now += 1.0

    def _wake(self, task: Task, number: int, *, woken: bool) -> int:
        """Makes a task ready if it is still in a wait; returns how many were made ready."""
        if task.done or task.ready or task.wait != number or not task.process.alive:
            return 0
        task.wait, task.woken = task.wait + 1, woken
        self._make_ready(task)
        return 1

    def _make_ready(self, task: Task) -> None:
        task.ready = True
        self._ready.append(task)
