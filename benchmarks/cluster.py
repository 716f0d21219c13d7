"""A cluster for one benchmark, with a temporary data directory and free ports. It is stopped afterwards."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from connectors.kafka.client.config import KafkaSettings
from connectors.native.library import library
from dsms.cli.api_client import ApiClient
from dsms.local import supervisor
from dsms.local.settings import LocalSettings
from dsms.local.state import LocalState, ServiceState, read_state
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

READY_S = 180.0
#: Limits that permit one client to create all queries of a benchmark.
_MANY = "token_queries=100000 queries=100000"
LOG_LINES = 12
#: The services that are not programs of this project.
FOREIGN = ("kafka", "redis")


@dataclass(frozen=True)
class Cluster:
    """The addresses of a running cluster."""

    state: LocalState
    kafka: KafkaSettings
    api: ApiClient

    @property
    def url(self) -> str:
        """The URL of the coordinator, which is also the schema registry."""
        return self.api.url

    def pids(self, *, ours: bool) -> list[int]:
        """The process ids of coordinator and executors (`ours`), or of Kafka and Redis."""
        return [service.pid for service in self._services() if service.pid and (service.name not in FOREIGN) == ours]

    def pids_by_name(self) -> dict[str, int]:
        """The process ids of all services that run, by their names."""
        return {service.name: service.pid for service in self._services() if service.pid}

    def renew_executor(self) -> None:
        """Terminates the executor and waits until the supervisor's next one is running."""
        before = self.executor()
        os.kill(before, signal.SIGTERM)
        self.await_executor(before)

    def await_executor(self, former: int = 0) -> None:
        """Waits until an executor other than the process `former` runs its fragments. Raises ExternalError if this
        takes longer than `READY_S`."""
        if not wait_until(lambda: self.executor() not in (0, former) and self._running(), READY_S, pause_s=0.2):
            log_end = (self.state.data_dir / "executor-1.log").read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
            raise ExternalError(
                f"no executor runs after {READY_S:g} s", hint="\n".join(["its log ends with", *log_end])
            )

    def await_running(self, executors: int) -> None:
        """Waits until this number of executors run their fragments. Raises ExternalError if this takes longer than
        `READY_S`."""

        def running() -> int:
            return sum(executor["state"] == "running" for executor in self.api.status()["executors"].values())

        if not wait_until(lambda: running() >= executors, READY_S, pause_s=0.2):
            raise ExternalError(f"{running()} of {executors} executors run after {READY_S:g} s")

    def executor(self) -> int:
        """The process id of the executor; 0 while none runs."""
        return next(
            (service.pid or 0 for service in self._services() if service.name == "executor-1" and service.running), 0
        )

    def _running(self) -> bool:
        return any(executor["state"] == "running" for executor in self.api.status()["executors"].values())

    def _services(self) -> tuple[ServiceState, ...]:
        """The services with their present processes: the supervisor restarts those that end."""
        return (read_state(self.state.data_dir) or self.state).services

    def failure(self) -> str | None:
        """The reason why a query or an executor has failed, or None."""
        for executor in self.api.status()["executors"].values():
            for lane in executor["lanes"].values():
                if lane["error"]:
                    return str(lane["error"])
            if executor["reason"]:
                return str(executor["reason"])
        return None


def report(line: str) -> None:
    """Prints a line of progress with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {line}", flush=True)


def _end_by_exit() -> None:
    """Lets SIGTERM end the process like Ctrl-C, so that the processes that it started are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@contextmanager
def running_kafka() -> Iterator[KafkaSettings]:
    """A broker (and an idle Redis) for a peer system, without this project's programs."""
    _end_by_exit()
    with tempfile.TemporaryDirectory(prefix="dsms-bench-") as temporary:
        settings = LocalSettings(data_dir=Path(temporary), kafka_port=0, redis_port=0, services_only=True)
        state = supervisor.up(settings, report=report)
        try:
            yield KafkaSettings(state.kafka)
        finally:
            supervisor.down(settings.data_dir, report=report)


@contextmanager
def running_cluster(keep: Path | None = None, executors: int = 1) -> Iterator[Cluster]:
    """A cluster while the block runs, with an idle fragment on each of its executors. With `keep`, its data stay in
    that directory."""
    _end_by_exit()
    with tempfile.TemporaryDirectory(prefix="dsms-bench-") as temporary:
        directory = (keep or Path(temporary)).absolute()
        settings = LocalSettings(
            data_dir=directory,
            kafka_port=0,
            redis_port=0,
            http_port=0,
            postgres_port=0,
            executors=executors,
            limits=_MANY,
            without_token=True,
            python=True,
        )
        if library() is None:
            report("the native part is not built here: its fallback is measured, which is some three times slower")
        state = supervisor.up(settings, report=report)
        try:
            assert state.coordinator is not None
            with ApiClient(state.coordinator) as api:
                cluster = Cluster(state, KafkaSettings(state.kafka), api)
                cluster.await_executor()
                cluster.await_running(executors)
                yield cluster
        finally:
            supervisor.down(directory, report=report)
