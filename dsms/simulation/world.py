"""A simulated world: the services, their neighbours and their users, wired together."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from connectors.alarms import Alarm, Alarms
from connectors.kafka.client.topics import SOURCE, ensure_topic
from connectors.simulation.faults import Fault, FaultPlan, Kind
from connectors.simulation.files import SimulatedDisks
from connectors.simulation.kafka.cluster import ClusterSettings, SimulatedCluster
from connectors.simulation.kafka.image import broker_name
from connectors.simulation.kafka.settings import SimulatedKafka
from connectors.simulation.scheduler import Process, Scheduler
from connectors.simulation.state.store import SimulatedAddress, SimulatedStore
from connectors.simulation.threads import Event
from connectors.simulation.virtual import virtual
from dsms.coordinator.service.coordinator import Coordinator
from dsms.coordinator.service.settings import CoordinatorSettings
from dsms.executor.process import ExecutorProcess
from dsms.runtime.memory.allocators import return_freed_memory
from dsms.runtime.memory.cyclic_collector import collect_between_tasks, collect_rarely
from dsms.runtime.memory.worker_limit import limit_memory
from dsms.runtime.settings import CheckpointSettings, ExecutorSettings
from dsms.shedding.rates import decide
from dsms.simulation.clients import Leading, Producer, StatementClient
from dsms.simulation.engine import SimulatedEngine
from dsms.simulation.history import AddedPartitions, History
from dsms.simulation.overload import overloaded
from dsms.simulation.processes import Service
from dsms.simulation.select_answers import AnswersHere
from dsms.simulation.topics import CopiedTopic, decisive, published, put
from dsms.simulation.verdict import Records
from dsms.state.stores import StateAddress
from dsms.tables.select_process import SelectProcess

CLUSTER, COORDINATOR = "sim", "coordinator"
#: The directory that stands for the object store of checkpoints.
_CHECKPOINTS = "checkpoints"
#: The faults that the world carries out itself.
_OWN: tuple[Kind, ...] = ("kill", "pause", "clock jumps", "files lost")
#: Functions that change how a real process uses memory: all simulated ones are in this process.
_OF_REAL_PROCESSES = (collect_rarely, collect_between_tasks, limit_memory, return_freed_memory)
#: A directory in memory, if the machine has one: simulated disks then cost no real time.
_FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None


def _do_nothing() -> None:
    """Stands in for functions about the memory of a real process."""


def _check_targets(history: History) -> None:
    """Raises ValueError if a fault is aimed at nothing, because it would never happen."""
    layout = history.layout
    brokers = [broker_name(number) for number in range(1, layout.brokers + 1)]
    known = ["", COORDINATOR, *layout.executor_names, *brokers]
    for fault in history.faults:
        if fault.target not in known:
            raise ValueError(f'nothing is named "{fault.target}": {fault}; have: {", ".join(known[1:])}')


@dataclass(frozen=True, kw_only=True)
class _AtSimulatedStore:
    """Settings with the address of the simulated store."""

    address: SimulatedAddress

    @property
    def state(self) -> StateAddress:
        """The address of the simulated store."""
        return cast(StateAddress, self.address)


@dataclass(frozen=True, kw_only=True)
class _CoordinatorSettings(_AtSimulatedStore, CoordinatorSettings):
    """The settings of a simulated coordinator."""


@dataclass(frozen=True, kw_only=True)
class _ExecutorSettings(_AtSimulatedStore, ExecutorSettings):
    """The settings of a simulated executor."""


class World:
    """The world of a history. `start` starts everything; `scheduler.run_until` lets time pass."""

    def __init__(self, history: History, logs: list[CopiedTopic] | None = None) -> None:
        """With `logs`, Kafka has these topics at the beginning."""
        self.history, layout = history, history.layout
        self.scheduler = Scheduler(history.seed, epoch_s=history.epoch_s)
        _check_targets(history)
        self.plan = FaultPlan(history.faults)
        self.plan.strike = self._strike
        kafka = ClusterSettings(layout.brokers, 2, layout.transaction_version, layout.verification)
        self.kafka = SimulatedCluster(self.scheduler, self.plan, kafka)
        if logs is not None:
            put(self.kafka, logs)
        self.store = SimulatedStore(self.scheduler, self.plan, CLUSTER)
        self.directory = Path(tempfile.mkdtemp(prefix="dsms-sim-", dir=_FAST))
        hosts = {name: self.directory / name for name in layout.executor_names}
        for directory in hosts.values():
            directory.mkdir()
        (self.directory / _CHECKPOINTS).mkdir()
        self.disks = SimulatedDisks(self.scheduler, self.plan, hosts)
        self.leading = Leading()
        self.client = StatementClient(self.scheduler, self.leading, history.statements)
        self.producer = Producer(self.scheduler, self._kafka, history.publications)
        names = [COORDINATOR, *hosts]
        mains = [self._coordinate, *[self._execute] * layout.executors]
        self._settings: dict[str, ExecutorSettings] = {}
        #: How many times each executor was started.
        self._starts: dict[str, int] = {}
        self.services = {name: Service(self.scheduler, name, main) for name, main in zip(names, mains, strict=True)}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside the block, product code runs in this world."""
        others: list[tuple[Any, Any]] = [(each, _do_nothing) for each in _OF_REAL_PROCESSES]
        others += [(SelectProcess, AnswersHere), (decide, overloaded(self.scheduler))]
        with virtual(self.scheduler, [*self.disks.stand_ins(), *others]):
            yield

    def start(self) -> None:
        """Starts the services, the users and the faults."""
        self.scheduler.spawn(self._prepare, "prepare", Process("admin"))
        for fault in self.plan.due(_OWN):
            self.scheduler.call_at(fault.at_s, partial(self._suffer, fault))

    @property
    def sent(self) -> bool:
        """Whether all statements are answered and all records sent."""
        return not self.unsent

    @property
    def unsent(self) -> str:
        """What has not been sent yet; empty if everything has."""
        if not self.client.done:
            waiting = self.client.answers[-1] if self.client.answers else None
            return f"a statement has no answer: {waiting}"
        return "" if self.producer.done else "records have not been acknowledged"

    @property
    def disturbed(self) -> bool:
        """Whether a process stands still, or was killed and not yet started again."""
        return any(service.process.stopped or not service.process.alive for service in self.services.values())

    @property
    def caches(self) -> dict[str, Path]:
        """The directory of each host for the files of runs."""
        return {host: settings.caches for host, settings in self._settings.items()}

    def published(self) -> dict[str, Records]:
        """The records of results and dead letters that readers see."""
        return published(self.kafka, self.history.logs)

    def decisive_logs(self) -> list[CopiedTopic]:
        """Copies of the logs that determine all results."""
        return decisive(self.kafka, CLUSTER, self.history.logs)

    def faults(self) -> Iterator[str]:
        """Errors that nobody handled."""
        for service in self.services.values():
            yield from (f"{service.name} ended with {error!r}" for error in service.faults)
        for task in self.scheduler.failed:
            yield f"task {task.process.name}/{task.name} ended with {task.error!r}"

    def close(self) -> None:
        """Ends all tasks and removes all files."""
        self.scheduler.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _prepare(self) -> None:
        """Creates the topics of sources, then starts everything else."""
        admin = self._kafka(Process("admin")).admin()
        for topic, partitions in self.history.topics.items():
            ensure_topic(admin, topic, partitions, SOURCE)  # does nothing if it exists
        for service in self.services.values():
            service.start()
        self.client.start()
        self.producer.start()
        for added in self.history.added:
            self.scheduler.call_at(added.at_s, partial(self._add_partitions, added))
        for recreated in self.history.recreated:
            self.scheduler.call_at(recreated.at_s, partial(self._recreate, recreated.topic))

    def _add_partitions(self, added: AddedPartitions) -> None:
        self.kafka.add_partitions(added.topic, added.partitions)

    def _recreate(self, topic: str) -> None:
        self.kafka.delete_topic(topic)
        self.kafka.create_topic(topic, self.history.topics[topic], SOURCE)

    def _kafka(self, process: Process) -> SimulatedKafka:
        return SimulatedKafka(cluster=self.kafka, process=process)

    def _strike(self, fault: Fault) -> None:
        """Carries out a fault of a process that has just sent a call, once its task waits for the answer."""
        self.scheduler.record(f"fault: {fault}")
        self.scheduler.call_at(self.scheduler.now, partial(self._suffer, fault))

    def _suffer(self, fault: Fault) -> None:
        service = self.services.get(fault.target)
        if service is None or not service.process.alive:
            return
        self.plan.happened[fault.kind] += not fault.operation  # the plan has counted it otherwise
        if fault.kind == "kill":
            service.kill(fault.for_s)
        elif fault.kind == "files lost":
            service.kill(fault.for_s)
            self.disks.lose_unflushed(fault.target)
        elif fault.kind == "pause":
            service.pause(fault.for_s)
        else:
            service.step_clock(fault.for_s)

    # the programs of the processes

    def _coordinate(self, process: Process) -> None:
        settings = _CoordinatorSettings(
            kafka=self._kafka(process),
            state_url="",
            address=self.store.address(),
            cluster=CLUSTER,
            fragments=self.history.layout.fragments,
            alarms=self._alarms(process),
        )
        coordinator = Coordinator(settings)
        coordinator.turn()
        self.leading.coordinator, self.leading.process = coordinator, process
        coordinator.watch(self._never())

    def _execute(self, process: Process) -> None:
        layout = self.history.layout
        settings = _ExecutorSettings(
            kafka=self._kafka(process),
            state_url="",
            address=self.store.address(),
            registry_url="http://nowhere",
            data_dir=self.directory / process.name,
            cluster=CLUSTER,
            executor_id=process.name,
            master="local[2]",
            partitions=self._targets_of(process),
            source_tasks=2,
            first_batch_records=layout.batch_records,
            min_batch_records=1,
            max_batch_records=layout.batch_records,
            checkpoints=self._checkpoints(),
            alarms=self._alarms(process),
        )
        self._settings[process.name] = settings
        ExecutorProcess(
            settings, partial(SimulatedEngine, self.scheduler, partial(self._kafka, process)), self._never()
        ).run()

    def _targets_of(self, process: Process) -> int:
        """The number of targets that an executor is started with: another one each time."""
        before = self._starts.get(process.name, 0)
        self._starts[process.name] = before + 1
        targets = self.history.layout.targets
        return 1 + (targets - 1 + before) % max(3, targets)

    def _checkpoints(self) -> CheckpointSettings | None:
        period_s = self.history.layout.checkpoint_s
        return None if period_s is None else CheckpointSettings(str(self.directory / _CHECKPOINTS), period_s)

    def _never(self) -> threading.Event:
        """An event that nobody sets: processes end only by being killed."""
        return cast(threading.Event, Event(self.scheduler))

    def _alarms(self, process: Process) -> Alarms:
        def notify(alarm: Alarm) -> None:
            place = alarm.place.removeprefix(f"{self.directory}/")  # its name differs in each run
            self.scheduler.record(f"alarm of {process.name}: {place}: {alarm.reason}")

        return Alarms(notify=notify)
