"""Runs functions as tasks of simulated processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from connectors.simulation.scheduler import Process, Scheduler

T = TypeVar("T")


@contextmanager
def scheduling(seed: int = 7) -> Iterator[Scheduler]:
    """A scheduler of the running thread; tests run in other threads than their fixtures."""
    scheduler = Scheduler(seed)
    try:
        yield scheduler
    finally:
        scheduler.close()


def run_as(scheduler: Scheduler, process: Process, run: Callable[[], T], within_s: float = 1_000.0) -> T:
    """The result of a function that a task of a process runs; raises its error."""
    results: list[T] = []
    task = scheduler.spawn(lambda: results.append(run()), "main", process)
    scheduler.run_until(scheduler.now + within_s, lambda: task.done)
    if task.error is not None:
        scheduler.failed.remove(task)
        raise task.error
    assert task.done, "the task still waits"
    return results[0]
