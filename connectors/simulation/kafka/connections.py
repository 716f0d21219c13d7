"""A client's connections to simulated brokers, and what it knows of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka.future import Future
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from connectors.kafka.client.broker_connections import retried
from connectors.kafka.client.connections import Unanswered
from connectors.simulation.kafka.cluster import SimulatedCluster
from connectors.simulation.kafka.network import Connection
from connectors.simulation.scheduler import Process, Signal

_PAUSE_MS = 50
_ANSWER_S = 30.0


class SimulatedConnections:
    """Connections of a process to the brokers of a cluster, opened on demand. For use by one task."""

    def __init__(self, cluster: SimulatedCluster, process: Process) -> None:
        self.cluster, self.process, self.scheduler = cluster, process, cluster.scheduler
        #: Signalled for each answer, and when a connection is cut.
        self.changed = Signal()
        #: How many connections were cut on which a request had been sent.
        self.cut = 0
        self._open: dict[int, Connection] = {}
        self._brokers: list[int] = []
        #: For each topic that was looked up and exists, the leaders of its partitions (-1: none).
        self._leaders: dict[str, list[int]] = {}
        self._wanted: dict[str, None] = {}

    def send(self, node: int, request: Any) -> Future:
        """Sends a request to a broker, in the greatest version that the request allows."""
        most = getattr(request, "_max_version", None)
        request.API_VERSION = type(request).max_version if most is None else most
        return self._connection(node).send(request)

    def send_to_any(self, request: Any) -> Future:
        """Sends a request to any broker, once one is known."""
        if not self._brokers:
            self.with_retries(self.refresh, "connecting")
        return self.send_nowait(request)

    def send_nowait(self, request: Any) -> Future:
        """Sends a request to any broker, of those that are known or that clients begin with."""
        return self.send(self.scheduler.random.choice(self._brokers or sorted(self.cluster.brokers)), request)

    def flush_nowait(self) -> None:
        """Does nothing: requests are sent at once."""

    def wait(self, future: Future, timeout_s: float) -> Any:
        """Waits for the response and returns it. Raises kafka-python's error if the request failed. If no response
        comes in time, cuts the connection and raises Unanswered.
        """
        self.await_done([future], timeout_s)
        if not future.is_done:
            for connection in [each for each in self._open.values() if each.waits_for(future)]:
                connection.cut()
            raise Unanswered(f"kafka did not answer within {timeout_s:g} s", retryable=True)
        if future.exception is not None:
            raise future.exception
        return future.value

    def await_done(self, futures: Iterable[Future], timeout_s: float) -> None:
        """Waits until all futures are done, or for some seconds."""
        assert self.scheduler.current is not None, "a client waits only in a task of the scheduler"
        deadline = self.scheduler.now + timeout_s
        for future in futures:
            while not future.is_done and self.scheduler.now < deadline:
                self.scheduler.wait(self.changed, deadline - self.scheduler.now)

    def leader(self, topic: str, partition: int, *, refreshed: bool = False) -> int | None:
        """The broker that leads a partition; None if it has no leader or does not exist."""
        if refreshed or self.known_leader(topic, partition) is None:
            self._look_up([topic], "looking for the leader of a partition")
        return self.known_leader(topic, partition)

    def known_leader(self, topic: str, partition: int) -> int | None:
        """The broker that leads a partition, as far as this client knows."""
        leaders = self._leaders.get(topic, [])
        leader = leaders[partition] if 0 <= partition < len(leaders) else -1
        return None if leader == -1 else leader

    def partitions(self, topic: str, *, refreshed: bool = False) -> int | None:
        """The number of partitions of a topic; None if it does not exist."""
        if refreshed or topic not in self._leaders:
            self._look_up([topic], f'looking up topic "{topic}"')
        return len(self._leaders[topic]) if topic in self._leaders else None

    def known_partitions(self, topic: str) -> int | None:
        """The number of partitions of a topic, as far as this client knows."""
        return len(self._leaders[topic]) if topic in self._leaders else None

    def look_up(self, topics: Iterable[str]) -> None:
        """Looks up the partitions of all unknown topics at once."""
        unknown = [topic for topic in topics if topic not in self._leaders]
        if unknown:
            self._look_up(unknown, f"looking up {len(unknown)} topics")

    def finalized(self, feature: str) -> int:
        """The version of one of Kafka's features; 0 if the cluster does not have it."""
        answer = self.with_retries(
            lambda: self.wait(self.send_to_any(ApiVersionsRequest()), _ANSWER_S),
            "asking for the features of the cluster",
        )
        levels = {each.name: int(each.max_version_level) for each in answer.finalized_features}
        return levels.get(feature, 0)

    def with_retries(self, attempt: Callable[[], Any], doing: str) -> Any:
        """Calls `attempt` until it succeeds, as `BrokerConnections` does."""
        return retried(attempt, doing, self.pause)

    def pause(self, milliseconds: float = _PAUSE_MS) -> None:
        """Waits for a moment."""
        self.scheduler.sleep(milliseconds / 1000)

    def close(self) -> None:
        """Closes all connections."""
        opened, self._open = self._open, {}
        for connection in opened.values():
            connection.cut()

    def refresh(self) -> None:
        """Asks a broker for the leaders of all topics that were looked up. Raises kafka-python's errors."""
        self.learn(self.wait(self.send_nowait(self.metadata_request()), _ANSWER_S))

    def metadata_request(self, topics: Iterable[str] = ()) -> MetadataRequest:
        """A request for the leaders of these topics and of those that were looked up before."""
        self._wanted.update(dict.fromkeys(topics))
        kind = MetadataRequest.MetadataRequestTopic
        return MetadataRequest(
            topics=[kind(topic_id=None, name=name) for name in self._wanted], allow_auto_topic_creation=False
        )

    def learn(self, answer: Any) -> None:
        """Takes the brokers and leaders from an answer."""
        self._brokers = [broker.node_id for broker in answer.brokers]
        for topic in answer.topics:
            if topic.error_code:
                self._leaders.pop(topic.name, None)
            else:
                parts = sorted(topic.partitions, key=lambda part: part.partition_index)
                self._leaders[topic.name] = [part.leader_id for part in parts]

    def _look_up(self, topics: list[str], doing: str) -> None:
        self._wanted.update(dict.fromkeys(topics))
        self.with_retries(self.refresh, doing)

    def _connection(self, node: int) -> Connection:
        connection = self._open.get(node)
        if connection is None or not connection.open:
            self.cut += connection is not None and connection.used
            connection = self.cluster.network.connect(self.process, self.cluster.brokers[node], self.changed)
            self._open[node] = connection
        return connection

    def any_cut(self) -> bool:
        """Whether a connection on which requests were sent has been cut since the last call."""
        cut = [node for node, connection in self._open.items() if not connection.open]
        lost = self.cut > 0 or any(self._open[node].used for node in cut)
        for node in cut:
            del self._open[node]
        self.cut = 0
        return lost
