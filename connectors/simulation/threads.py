"""Stand-ins for `threading` and thread pools: their threads are tasks of a scheduler.

They behave as those of the standard library. A lock that is free is taken at once; what blocks lets other tasks run.
In a thread that is not the scheduler's, such as a callback from Polars, nothing blocks.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Self

from connectors.simulation.scheduler import Process, Scheduler, Signal, Task


class Lock:
    """`threading.Lock`; if `reentrant`, `threading.RLock`."""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool = False) -> None:
        self._scheduler, self._reentrant = scheduler, reentrant
        self._owner: Task | None = None
        self._depth = 0
        self._free = Signal()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Takes the lock; returns whether it was taken."""
        me, deadline = self._scheduler.current, None if timeout < 0 else self._scheduler.now + timeout
        if self._reentrant and self._depth and self._owner is me:
            self._depth += 1
            return True
        while self._depth and not self._scheduler.closed:
            left = None if deadline is None else deadline - self._scheduler.now
            if not blocking or (left is not None and left <= 0):
                return False
            self._scheduler.wait(self._free, left)
        self._owner, self._depth = me, 1
        return True

    def release(self) -> None:
        """Gives the lock back."""
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._owner = None
            self._scheduler.send(self._free, 1)

    def locked(self) -> bool:
        """Whether a task holds the lock."""
        return self._depth > 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Event:
    """`threading.Event`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._set, self._signal = scheduler, False, Signal()

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._set

    def set(self) -> None:
        """Sets the event and wakes all that wait."""
        self._set = True
        self._scheduler.send(self._signal)

    def clear(self) -> None:
        """Resets the event."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the event is set; returns whether it is."""
        deadline = None if timeout is None else self._scheduler.now + timeout
        while not self._set:
            left = None if deadline is None else deadline - self._scheduler.now
            if left is not None and left <= 0:
                self._scheduler.pause()
                break
            self._scheduler.wait(self._signal, left)
        return self._set


class Condition:
    """`threading.Condition`."""

    def __init__(self, scheduler: Scheduler, lock: Lock | None = None) -> None:
        self._scheduler, self._lock = scheduler, lock or Lock(scheduler, reentrant=True)
        self._signal = Signal()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Gives the lock back, waits for a notification, and takes the lock again."""
        self._lock.release()
        try:
            return self._scheduler.wait(self._signal, timeout)
        finally:
            self._lock.acquire()

    def wait_for(self, holds: Callable[[], bool], timeout: float | None = None) -> bool:
        """Waits until a condition holds."""
        deadline = None if timeout is None else self._scheduler.now + timeout
        while not holds():
            left = None if deadline is None else deadline - self._scheduler.now
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        """Wakes some tasks that wait."""
        self._scheduler.send(self._signal, n)

    def notify_all(self) -> None:
        """Wakes all tasks that wait."""
        self._scheduler.send(self._signal)


class Semaphore:
    """`threading.Semaphore`."""

    def __init__(self, scheduler: Scheduler, value: int = 1) -> None:
        self._scheduler, self._left, self._free = scheduler, value, Signal()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Takes one of the permits; returns whether it was taken."""
        deadline = None if timeout is None else self._scheduler.now + timeout
        while not self._left:
            left = None if deadline is None else deadline - self._scheduler.now
            if not blocking or (left is not None and left <= 0):
                return False
            self._scheduler.wait(self._free, left)
        self._left -= 1
        return True

    def release(self, n: int = 1) -> None:
        """Gives permits back."""
        self._left += n
        self._scheduler.send(self._free, n)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Thread:
    """`threading.Thread`: a task of the process that starts it."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object] = lambda: None,
        name: str = "thread",
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler, self.name = scheduler, name
        self._run: Callable[[], object] = lambda: target(*args, **(kwargs or {}))
        self._task: Task | None = None
        self._ended = Event(scheduler)

    def start(self) -> None:
        """Starts the task."""
        self._task = self._scheduler.spawn(self._call, self.name, process_of(self._scheduler))

    def is_alive(self) -> bool:
        """Whether the task runs."""
        return self._task is not None and not self._ended.is_set()

    def join(self, timeout: float | None = None) -> None:
        """Waits until the task has ended."""
        self._ended.wait(timeout)

    def _call(self) -> None:
        try:
            self._run()
        finally:
            self._ended.set()


class ThreadPool:
    """`concurrent.futures.ThreadPoolExecutor`, whose futures wait as tasks do."""

    def __init__(self, scheduler: Scheduler, max_workers: int | None = None, thread_name_prefix: str = "pool") -> None:
        self._scheduler, self._most, self._name = scheduler, max_workers or 4, thread_name_prefix
        self._queue: deque[tuple[TaskFuture, Callable[[], Any]]] = deque()
        self._running = 0
        self._idle = Signal()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Calls a function in a task."""
        future = TaskFuture(self._scheduler)
        self._queue.append((future, lambda: function(*args, **kwargs)))
        if self._running < self._most:
            self._running += 1
            self._scheduler.spawn(self._work, self._name, process_of(self._scheduler))
        return future

    def map(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterable[Any]:
        """The results of calls, in order."""
        futures = [self.submit(function, *args) for args in zip(*iterables, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits until all submitted functions have ended, if `wait`."""
        if cancel_futures:
            self._queue.clear()
        while wait and self._running and not self._scheduler.closed:
            self._scheduler.wait(self._idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()

    def _work(self) -> None:
        try:
            while self._queue:
                future, call = self._queue.popleft()
                future.run(call)
        finally:
            self._running -= 1
            self._scheduler.send(self._idle)


class TaskFuture(Future[Any]):
    """A future on which a task can wait."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler, self._ended = scheduler, Event(scheduler)

    def run(self, call: Callable[[], Any]) -> None:
        """Calls a function and keeps its result or its error."""
        try:
            self.set_result(call())
        except Exception as error:  # noqa: BLE001 raised by `result`
            self.set_exception(error)
        self._ended.set()

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the result and returns it, or raises the error. Raises TimeoutError if it takes too long."""
        self._ended.wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end and returns the error, if there is one."""
        self._ended.wait(timeout)
        return super().exception(0)


class Clock:
    """`time`: the monotonic clock is virtual time, the wall clock that of the running process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        """Seconds of virtual time."""
        return self._scheduler.now

    def time(self) -> float:
        """Seconds since 1970 by the clock of the process."""
        process = self._scheduler.process
        return self._scheduler.epoch_s + self._scheduler.now + (process.skew_s if process is not None else 0.0)

    def time_ns(self) -> int:
        """Nanoseconds since 1970 by the clock of the process."""
        return int(self.time() * 1e6) * 1000

    def monotonic_ns(self) -> int:
        """Nanoseconds of virtual time."""
        return int(self._scheduler.now * 1e9)

    def sleep(self, seconds: float) -> None:
        """Waits for some virtual time."""
        self._scheduler.sleep(seconds)

    perf_counter, perf_counter_ns = monotonic, monotonic_ns


def process_of(scheduler: Scheduler) -> Process:
    """The process of the running task."""
    process = scheduler.process
    return process if process is not None else Process("nobody")


def thread_local() -> types.SimpleNamespace:
    """`threading.local`: tasks of one process share it, because none of them keeps anything there across a wait."""
    return types.SimpleNamespace()
