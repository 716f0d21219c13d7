"""The services and processes of a run, and the disturbances that can be applied to them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import psutil
import redis

from dsms.local.broker import Broker
from dsms.local.installed import local_redis
from dsms.local.ports import free_port
from dsms.local.process import ManagedProcess
from dsms.local.redis_server import RedisServer
from integration.chaos import timeline as t
from integration.chaos.clock import Clock, clocks, compiler, step_of
from integration.chaos.disk import Disk, can_mount, mounted
from integration.chaos.link import Link, linked
from integration.cluster import Cluster, kill_9
from integration.linked_broker import linked_broker

_DISK_MB = {t.REDIS: 768, **dict.fromkeys(t.EXECUTORS, 256)}
#: The options of all executors.
_EXECUTOR = {"batch_records": 2_000, "batch_seconds": 1.0}


def unable() -> dict[str, str]:
    """The kinds of disturbances that this machine cannot do, and why."""
    reasons = {}
    if compiler() is None:
        reasons[t.STEP_CLOCK] = "there is no C compiler"
    if not can_mount():
        reasons[t.FILL_DISK] = "mounting a small disk needs root"
    return reasons


class Impossible(Exception):
    """The target of a disturbance does not run at the moment."""


@dataclass
class World:
    """The broker, Redis, the links to them, the cluster, its executors by name, and their disks and clocks."""

    broker: Broker
    redis: RedisServer
    links: Mapping[str, Link]
    cluster: Cluster
    disks: Mapping[str, Disk]
    clocks: Mapping[str, Clock]
    executors: dict[str, ManagedProcess] = field(default_factory=dict)
    #: Processes that are stopped on purpose at the moment.
    down: set[str] = field(default_factory=set)
    _frozen: dict[int, list[psutil.Process]] = field(default_factory=dict)

    @property
    def kafka(self) -> str:
        """The broker's own address, which no disturbance of the link affects."""
        return self.broker.address

    def begin(self, disturbance: t.Disturbance) -> None:
        """Begins a disturbance. Raises Impossible if there is nothing to disturb."""
        _BEGIN[disturbance.kind](self, disturbance)

    def heal(self, disturbance: t.Disturbance) -> None:
        """Ends a disturbance."""
        _HEAL.get(disturbance.kind, lambda *_: None)(self, disturbance)

    def heal_all(self) -> None:
        """Ends everything that a disturbance can have left behind."""
        for frozen in list(self._frozen):
            self._thaw(frozen)
        for link in self.links.values():
            link.heal()
        for disk in self.disks.values():
            disk.free()
        for clock in self.clocks.values():
            clock.step(0)
        for name in (t.KAFKA, t.REDIS, t.COORDINATOR, *t.EXECUTORS):
            self.start(name)

    def supervise(self) -> list[str]:
        """Starts processes that have ended by themselves, as a supervisor would; returns their names."""
        processes = {**self.executors, t.COORDINATOR: self.cluster.coordinator}
        ended = [name for name, process in processes.items() if name not in self.down and not process.alive]
        for name in ended:
            processes[name].kill()  # what is left of its descendants
            self.start(name)
        return ended

    def start_executor(self, name: str) -> None:
        """Starts an executor, with its former data directory, if it does not run."""
        if name in self.executors:
            self.executors[name].start()
        else:
            environment = _environment(self.clocks.get(name))
            self.executors[name] = self.cluster.start_executor(name, environment=environment, **_EXECUTOR)

    def process(self, name: str) -> ManagedProcess:
        """A running process of the cluster; raises Impossible if it does not run."""
        process = self.cluster.coordinator if name == t.COORDINATOR else self.executors.get(name)
        if process is None or not process.alive:
            raise Impossible(f"{name} does not run")
        return process

    def server(self, name: str) -> Broker | RedisServer:
        """Kafka or Redis; raises Impossible if it does not run."""
        server = self.broker if name == t.KAFKA else self.redis
        if not server.alive:
            raise Impossible(f"{name} does not run")
        return server

    def start(self, name: str) -> None:
        """Starts a process or server again, if it does not run."""
        self.down.discard(name)
        if name == t.COORDINATOR:
            self.cluster.coordinator.start()
        elif name == t.KAFKA:
            self.broker.start()
        elif name == t.REDIS:
            if t.REDIS in self.disks:
                self.disks[t.REDIS].free()  # it does not start on a full disk
            self.redis.start()
        else:
            self.start_executor(name)

    def stop(self, name: str, how: Callable[[ManagedProcess], None]) -> None:
        """Stops a running process until it is started again."""
        process = self.process(name)
        self.down.add(name)
        how(process)

    def freeze(self, process: ManagedProcess, *, whole: bool) -> None:
        """Suspends a process; if `whole`, with all its descendants."""
        root = psutil.Process(process.pid)
        frozen = [root, *(root.children(recursive=True) if whole else [])]
        self._frozen[root.pid] = frozen
        _signal(frozen, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Resumes a suspended process, if it still exists."""
        process = self.cluster.coordinator if name == t.COORDINATOR else self.executors[name]
        if process.pid in self._frozen:
            self._thaw(process.pid)

    def _thaw(self, pid: int) -> None:
        _signal(reversed(self._frozen.pop(pid)), signal.SIGCONT)


def _signal(processes: Iterator[psutil.Process] | list[psutil.Process], number: int) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _freeze(world: World, what: t.Disturbance) -> None:
    world.freeze(world.process(what.target), whole=what.size > 0)


def _kill_workers(world: World, what: t.Disturbance) -> None:
    _kill_children(world.process(what.target), "dsms.spark.compat.worker_daemon", of_parent=True)


def _kill_planner(world: World, what: t.Disturbance) -> None:
    _kill_children(world.process(what.target), "python_streaming_source_runner", of_parent=False)


def _kill_children(executor: ManagedProcess, module: str, *, of_parent: bool) -> None:
    """Kills the descendants whose command line, or that of their parent, names a module."""
    killed = 0
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(executor.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                named = process.parent() if of_parent else process
                if named is not None and module in " ".join(named.cmdline()):
                    process.kill()
                    killed += 1
    if not killed:
        raise Impossible(f"no process of {module}")


def _empty(world: World, what: t.Disturbance) -> None:
    with redis.Redis.from_url(world.redis.url, socket_timeout=10) as client:
        try:
            client.flushall()
        except (redis.ConnectionError, redis.ResponseError) as error:  # it does not run, or its disk is full
            raise Impossible(str(error)) from error


def _empty_disk(world: World, what: t.Disturbance) -> None:
    server = world.server(what.target)
    server.kill()
    for path in server.config.data_dir.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "filler":
            path.unlink()


def _step_clock(world: World, what: t.Disturbance) -> None:
    world.clocks[what.target].step(step_of(what.size))


def _leave(world: World, what: t.Disturbance) -> None:
    with suppress(Impossible):
        world.stop(what.target, ManagedProcess.stop)


Act = Callable[[World, t.Disturbance], None]
_BEGIN: Mapping[str, Act] = {
    t.KILL: lambda world, what: world.stop(what.target, kill_9),
    t.FREEZE: _freeze,
    t.KILL_WORKERS: _kill_workers,
    t.KILL_PLANNER: _kill_planner,
    t.CUT: lambda world, what: world.links[what.target].cut(),
    t.SILENCE: lambda world, what: world.links[what.target].silence(),
    t.DELIVER_LATE: lambda world, what: world.links[what.target].deliver_late(Random(what.size)),
    t.RESTART: lambda world, what: world.server(what.target).kill(),
    t.EMPTY: _empty,
    t.EMPTY_DISK: _empty_disk,
    t.STEP_CLOCK: _step_clock,
    t.FILL_DISK: lambda world, what: world.disks[what.target].fill(),
    t.LEAVE: lambda world, what: world.stop(what.target, ManagedProcess.stop),
    t.JOIN: lambda world, what: world.start(what.target),
}
_HEAL: Mapping[str, Act] = {
    t.KILL: lambda world, what: world.start(what.target),
    t.FREEZE: lambda world, what: world.thaw(what.target),
    t.CUT: lambda world, what: world.links[what.target].heal(),
    t.SILENCE: lambda world, what: world.links[what.target].heal(),
    t.DELIVER_LATE: lambda world, what: world.links[what.target].heal(),
    t.RESTART: lambda world, what: world.start(what.target),
    t.EMPTY_DISK: lambda world, what: world.start(what.target),
    t.STEP_CLOCK: lambda world, what: world.clocks[what.target].step(0),
    t.FILL_DISK: lambda world, what: world.disks[what.target].free(),
    t.LEAVE: lambda world, what: world.start(what.target),
    t.JOIN: _leave,
}


@contextmanager
def world(directory: Path) -> Iterator[World]:
    """A broker, Redis, coordinator and two executors while the block runs; no process and no mount outlives it."""
    with ExitStack() as stack:
        disks = _disks(directory, stack)
        broker, kafka_link = _linked_broker(directory, stack)
        redis_server = local_redis(directory / "redis" / "data", os.environ)
        stack.callback(redis_server.kill)
        redis_server.start()
        redis_link = stack.enter_context(linked(free_port(), redis_server.port))
        stepped = clocks(directory, (*t.EXECUTORS, t.COORDINATOR))
        cluster = Cluster(
            f"127.0.0.1:{kafka_link.port}",
            f"redis://127.0.0.1:{redis_link.port}/0",
            directory / "cluster",
            fragments=2,
            environment=_environment(stepped.get(t.COORDINATOR)),
        )
        stack.callback(cluster.close)
        cluster.coordinator.start()
        cluster.coordinator.spec = replace(cluster.coordinator.spec, ready=lambda: True)  # it may start amid a failure
        made = World(broker, redis_server, {t.KAFKA: kafka_link, t.REDIS: redis_link}, cluster, disks, stepped)
        for name in t.EXECUTORS:
            made.start_executor(name)
        yield made


def _linked_broker(directory: Path, stack: ExitStack) -> tuple[Broker, Link]:
    broker, link, server = linked_broker(directory / "kafka")
    stack.callback(broker.kill)
    broker.start()
    return broker, stack.enter_context(linked(link, server, framed=True))


def _disks(directory: Path, stack: ExitStack) -> dict[str, Disk]:
    """Small disks at the data directories of Redis and the executors, if this process may mount them."""
    if not can_mount():
        return {}
    places = {t.REDIS: directory / "redis"} | {
        name: directory / "cluster" / f"{name}-{number}" for number, name in enumerate(t.EXECUTORS)
    }
    return {name: stack.enter_context(mounted(place, _DISK_MB[name])) for name, place in places.items()}


def _environment(clock: Clock | None) -> dict[str, str]:
    return {} if clock is None else clock.environment
