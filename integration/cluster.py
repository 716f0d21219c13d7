"""A coordinator and executors as separate processes, for tests that crash them and read what they wrote."""

import json
import os
import shutil
import signal
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from connectors.credentials.client_tls import ClientTls
from dsms.local.java import find_java
from dsms.local.ports import free_port
from dsms.local.process import ManagedProcess, ProcessSpec
from dsms.local.services import http_ready
from dsms.local.waiting import wait_until
from dsms.planner.physical.parts.links import share_of
from dsms.spark.scratch import temporary_directory
from integration.kafka_log import followed, last_values, settled

DEADLINE_S = 240.0
#: Spark starts often here and never runs long.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


class Refused(Exception):
    """The coordinator answered with an error: the HTTP status and the `error` document."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(f"{status}: {error}")
        self.status, self.error = status, error


class Cluster:
    """A named cluster over a broker and a Redis that other clusters may share. `close` ends all its processes."""

    def __init__(
        self,
        kafka: str,
        redis_url: str,
        directory: Path,
        name: str | None = None,
        fragments: int = 1,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.kafka, self.redis_url, self.directory = kafka, redis_url, directory
        self.name = name or f"c{uuid.uuid4().hex[:10]}"
        self._progress = progress_topic(self.name)
        given = {"DSMS_PYTHON": "true", **(environment or {})}
        self.url = f"{'https' if 'DSMS_TLS_CERT' in given else 'http'}://127.0.0.1:{free_port()}"
        tls = ClientTls.of(given).context()
        self._client = httpx.Client(base_url=self.url, timeout=120, trust_env=False, verify=tls or True)
        probed = f"http://127.0.0.1:{given['DSMS_PROBE_PORT']}" if "DSMS_PROBE_PORT" in given else self.url
        self.coordinator = self._process(
            "coordinator", self._coordinator_command(fragments), lambda: http_ready(f"{probed}/healthz"), given
        )
        self.executors: list[ManagedProcess] = []

    def start_executor(  # noqa: PLR0913 what may differ between executors
        self,
        executor_id: str = "executor-1",
        *,
        fault: str = "",
        partitions: int = 2,
        batch_records: int = 0,
        batch_seconds: float = 20,
        policy: str = "fifo",
        master: str = "local[2,2]",
        state_memory: str = "none",
        checkpoints: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ManagedProcess:
        """Starts an executor process. Several processes may have the same id, as after a network partition."""
        label = f"{executor_id}-{len(self.executors)}"
        command = [
            *(sys.executable, "-m", "dsms.executor", "--kafka", self.kafka, "--redis", self.redis_url),
            *("--coordinator", self.url, "--cluster", self.name, "--id", executor_id),
            *("--data-dir", str(self.directory / label), "--partitions", str(partitions), "--master", master),
            *("--state-memory", state_memory),
            *(("--checkpoints", checkpoints, "--checkpoint-seconds", "1") if checkpoints else ()),
            *(("--batch-records", str(batch_records)) if batch_records else ()),
            *(("--batch-seconds", str(batch_seconds), "--policy", policy) if batch_records else ()),
        ]
        extra = {"DSMS_FAULT": fault, "JAVA_TOOL_OPTIONS": QUICK_START, **(environment or {})}
        process = self._process(label, command, lambda: True, extra)
        self.executors.append(process)
        process.start()
        return process

    def sql(self, text: str, token: str = "") -> list[dict[str, Any]]:
        """Runs statements; raises Refused."""
        return self.call("POST", "statements", token, json={"sql": text})["results"]

    def get(self, path: str) -> Any:
        """The document at a path such as `queries/Hot`; raises Refused."""
        return self.call("GET", path)

    def call(self, method: str, path: str, token: str = "", **request: Any) -> Any:
        """The answer to a call with a token; raises Refused."""
        return self._answer(self.answered(method, path, token, **request))

    def answered(self, method: str, path: str, token: str = "", **request: Any) -> httpx.Response:
        """The response to a call with a token."""
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **request.pop("headers", {})}
        return self._client.request(method, f"/v1/{path}", headers=headers, **request)

    def topic(self, name: str) -> str:
        """The result topic of a query."""
        return self.get(f"queries/{name}")["topic"]

    def frontiers(self, topics: Collection[str]) -> dict[str, int]:
        """The published frontiers of result topics, from the progress topic."""
        return frontiers(last_values(self.kafka, self._progress), topics)

    def frontier(self, topic: str) -> int:
        """The published frontier of one result topic."""
        return self.frontiers([topic])[topic]

    def await_frontier(self, topics: str | Collection[str], instant: int, deadline_s: float = DEADLINE_S) -> None:
        """Waits until all results below the instant are published, and visible on every partition."""
        topics = [topics] if isinstance(topics, str) else topics
        self.await_progress(topics, instant, deadline_s)
        assert wait_until(lambda: settled(self.kafka, topics), deadline_s), f"a transaction on {topics} does not end"

    def await_progress(self, topics: Collection[str], instant: int, deadline_s: float = DEADLINE_S) -> None:
        """Waits until the progress topic says that all results below the instant are published."""
        with followed(self.kafka, self._progress) as table:
            done = wait_until(lambda: min(frontiers(table(), topics).values()) >= instant, deadline_s)
        assert done, f"frontiers {self.frontiers(topics)}, not {instant}; {self.logs()}"

    def await_state(self, state: str, executor_id: str = "executor-1", deadline_s: float = DEADLINE_S) -> None:
        """Waits until an executor reports the state."""
        done = wait_until(lambda: self.executor_state(executor_id) == state, deadline_s, pause_s=0.3)
        assert done, f"{executor_id} is {self.executor_state(executor_id)}, not {state}; {self.logs()}"

    def executor_state(self, executor_id: str) -> str:
        """The last state that the executor reported; "" after its lease has ended."""
        return self.get("status")["executors"].get(executor_id, {}).get("state", "")

    def await_fragments(self, owners: dict[str, list[str]], deadline_s: float = DEADLINE_S) -> None:
        """Waits until executors run these fragments, given by the names of the executors."""
        done = wait_until(lambda: self.fragments() == owners, deadline_s, pause_s=0.3)
        assert done, f"{self.fragments()}, not {owners}; {self.logs()}"

    def fragments(self) -> dict[str, list[str]]:
        """The fragments that each executor reports as running."""
        executors = self.get("status")["executors"]
        return {
            name: [fragment for fragment, state in sorted(status["fragments"].items()) if state == "running"]
            for name, status in executors.items()
        }

    def logs(self) -> str:
        """The last lines of all logs, for messages of failing tests."""
        files = sorted(self.directory.glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def close(self) -> None:
        """Ends all processes."""
        for process in [*self.executors, self.coordinator]:
            process.kill()
        self._client.close()
        for scratch in self.directory.glob("*/scratch/*"):  # a next start would remove it, but there is none
            shutil.rmtree(temporary_directory(scratch), ignore_errors=True)

    def _coordinator_command(self, fragments: int) -> list[str]:
        port = self.url.rsplit(":", 1)[-1]
        return [
            *(sys.executable, "-m", "dsms.coordinator", "--kafka", self.kafka, "--redis", self.redis_url),
            *("--http-port", port, "--cluster", self.name, "--fragments", str(fragments)),
        ]

    def _process(
        self, label: str, command: list[str], ready: Any, extra: dict[str, str] | None = None
    ) -> ManagedProcess:
        java_home = find_java(os.environ).resolve().parent.parent
        env = {**os.environ, "JAVA_HOME": str(java_home), "PYTHONUNBUFFERED": "1", **(extra or {})}
        return ManagedProcess(ProcessSpec(label, tuple(command), self.directory / f"{label}.log", ready, env))

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        if response.is_success:
            return response.json()
        raise Refused(response.status_code, response.json()["error"])


def progress_topic(cluster: str) -> str:
    """The topic in which a cluster records how far its results are published."""
    return f"_dsms.{cluster}.progress"


def frontiers(progress: dict[bytes, bytes], topics: Collection[str], queries: Collection[str] = ()) -> dict[str, int]:
    """The published frontiers of result topics, from the last values of the progress topic. `queries` restricts them to
    queries with these ids, because a topic may have belonged to another query before."""
    known: dict[str, list[dict]] = {topic: [] for topic in topics}
    for key, value in progress.items():
        topic = key.decode(errors="replace").rpartition("/")[0]
        if topic in known:
            known[topic].append(json.loads(value))
    asked = {
        topic: [body for body in bodies if not queries or body["query"] in queries] for topic, bodies in known.items()
    }
    return {topic: _least(bodies) for topic, bodies in asked.items()}


def _least(bodies: list[dict]) -> int:
    """The least frontier of the partitions of a result. If several fragments run the query and some of them have no
    frontier yet, returns the least possible instant."""
    shares = {body["query"] for body in bodies}
    known = share_of(next(iter(shares), ""))
    expected = 1 if known is None else known[1].of
    return min(body["frontier"] for body in bodies) if len(shares) == expected else -(2**63)


def kill_9(process: ManagedProcess) -> None:
    """Kills only this process, as a crash would, and then the children that outlived it."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: not process.alive, 120)
    process.kill()


def feed_and_crash(
    cluster: Cluster, topics: list[str], feed: Callable[[int, int], object], pieces: Iterable[int], batch_records: int
) -> int:
    """Writes pieces of the input with `feed(low, high)`, which writes the instants from low to high, and kills the
    executor whenever a piece is published. A new executor runs at the end. Returns where the last piece ended."""
    executor, low = cluster.start_executor(batch_records=batch_records), 0
    for high in pieces:
        feed(low, high)
        cluster.await_frontier(topics, high)
        kill_9(executor)
        executor, low = cluster.start_executor(batch_records=batch_records), high
    return low


def await_crash(process: ManagedProcess, deadline_s: float = DEADLINE_S) -> None:
    """Waits until the process has died at its fault point."""
    assert wait_until(lambda: not process.alive, deadline_s), f"{process.spec.name} did not crash: {log_of(process)}"
    process.kill()


def log_of(process: ManagedProcess) -> str:
    """The log of the process."""
    return process.spec.log_file.read_text(errors="replace")


@contextmanager
def running(
    kafka: str,
    redis_url: str,
    directory: Path,
    fragments: int = 1,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """A cluster with a coordinator, whose environment has these variables in addition, and no executor yet."""
    cluster = Cluster(kafka, redis_url, directory, fragments=fragments, environment=environment)
    try:
        cluster.coordinator.start()
        yield cluster
    finally:
        cluster.close()
