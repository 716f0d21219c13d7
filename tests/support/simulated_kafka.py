"""Runs functions as tasks over a simulated Kafka cluster, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connectors.simulation.faults import Fault, FaultPlan
from connectors.simulation.kafka.cluster import ClusterSettings, SimulatedCluster
from connectors.simulation.kafka.settings import SimulatedKafka
from connectors.simulation.scheduler import Process, Scheduler
from connectors.simulation.virtual import virtual

T = TypeVar("T")
_LIMIT_S = 3_600.0


@dataclass
class Simulation:
    """A cluster, and the processes that use it."""

    scheduler: Scheduler
    cluster: SimulatedCluster
    processes: dict[str, Process] = field(default_factory=dict)

    def kafka(self, name: str = "client") -> SimulatedKafka:
        """The settings of a process, which is created when it is first named."""
        process = self.processes.setdefault(name, Process(name))
        return SimulatedKafka(cluster=self.cluster, process=process)

    def run(self, function: Callable[[], T], name: str = "client") -> T:
        """Runs a function as a task of a process, and returns its result."""
        return self.run_all([function], name)[0]

    def run_all(self, functions: Iterable[Callable[[], T]], name: str = "client") -> list[T]:
        """Runs functions as concurrent tasks of a process, and returns their results."""
        process = self.processes.setdefault(name, Process(name))
        results: dict[int, T] = {}

        def keep(number: int, function: Callable[[], T]) -> None:
            results[number] = function()

        tasks = [
            self.scheduler.spawn(lambda number=number, function=function: keep(number, function), "test", process)
            for number, function in enumerate(functions)
        ]
        self.scheduler.run_until(self.scheduler.now + _LIMIT_S, lambda: all(task.done for task in tasks))
        for task in tasks:
            if task.error is not None:
                raise task.error
        assert all(task.done for task in tasks), f"a task did not end; the last event: {self.scheduler.trace.last}"
        return [results[number] for number in range(len(tasks))]

    def sleep(self, seconds: float) -> None:
        """Lets virtual time pass."""
        self.scheduler.run_until(self.scheduler.now + seconds)

    @property
    def events(self) -> list[str]:
        """The trace."""
        return list(self.scheduler.trace.events)


@contextmanager
def simulation(seed: int = 1, faults: Iterable[Fault] = (), **settings: Any) -> Iterator[Simulation]:
    """A simulation with virtual time, while the block runs."""
    scheduler = Scheduler(seed)
    cluster = SimulatedCluster(scheduler, FaultPlan(faults), ClusterSettings(**settings))
    with virtual(scheduler):
        try:
            yield Simulation(scheduler, cluster)
        finally:
            scheduler.close()
