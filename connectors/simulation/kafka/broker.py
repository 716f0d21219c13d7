"""A simulated broker: it answers requests from its own knowledge of the metadata, which may be outdated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from connectors.simulation.kafka import codes
from connectors.simulation.kafka.coordinator import Coordinator
from connectors.simulation.kafka.describe import kind_of
from connectors.simulation.kafka.image import Image, Topic, broker_name
from connectors.simulation.kafka.log import PartitionLog
from connectors.simulation.kafka.network import Network
from connectors.simulation.scheduler import Scheduler

Respond = Callable[[Any], None]
#: Begins to answer a request of a client; calls the function with the answer, at once or later.
Handler = Callable[["Broker", Any, str, Respond], None]


class Cluster(Protocol):
    """What brokers share: the log of each partition, the transactions, and the controller, which changes topics. The
    methods that change topics return error codes.
    """

    scheduler: Scheduler
    network: Network
    coordinator: Coordinator
    id: str
    #: The present metadata.
    image: Image
    transaction_version: int
    #: Whether brokers verify that a partition belongs to the transaction that writes to it.
    verification: bool

    def up(self, number: int) -> bool:
        """Whether a broker runs."""
        ...

    def log(self, topic: Topic, partition: int) -> PartitionLog:
        """The log of a partition."""
        ...

    def now_ms(self) -> int:
        """The time of the brokers' clocks."""
        ...

    def throttle_ms(self, client: str, size: int) -> int:
        """How long the answer to a request that writes some bytes is delayed, because of the quota."""
        ...

    def clean_later(self, topic: Topic, partition: int) -> None:
        """Cleans a log after a random time, unless that is planned already."""
        ...

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> int:
        """Creates a topic."""
        ...

    def add_partitions(self, name: str, count: int) -> int:
        """Raises the number of partitions of a topic."""
        ...

    def delete_topic(self, name: str) -> int:
        """Deletes a topic."""
        ...

    def configure_topic(self, name: str, settings: Mapping[str, str]) -> int:
        """Changes settings of a topic."""
        ...


class Broker:
    """A broker of a cluster."""

    def __init__(self, cluster: Cluster, number: int, handlers: Mapping[str, Handler]) -> None:
        self.cluster, self.number, self.name = cluster, number, broker_name(number)
        self._handlers = handlers
        self.up = True
        #: How often the broker was started; what began before a restart has no effect after it.
        self.starts = 1
        self.image: Image = cluster.image

    def learn(self, image: Image) -> None:
        """Takes a version of the metadata, unless a later one is known."""
        if self.up and image.version > self.image.version:
            self.image = image

    def stop(self) -> None:
        """Ends the broker, as a crash does. Its logs remain."""
        self.up = False

    def start(self) -> None:
        """Starts the broker again. It reads the metadata first."""
        self.up, self.starts, self.image = True, self.starts + 1, self.cluster.image

    def handle(self, request: Any, client: str, respond: Respond) -> None:
        """Begins to answer a request. Nothing is answered after the broker has ended."""
        starts = self.starts

        def answer(response: Any) -> None:
            if self.up and self.starts == starts:
                respond(response)

        self._handlers[kind_of(request)](self, request, client, answer)

    def led(self, topic: str, partition: int) -> tuple[int, Topic | None, PartitionLog | None]:
        """The topic and the log of a partition that this broker leads; otherwise an error code."""
        known, present = self.image.topics.get(topic), self.cluster.image.topics.get(topic)
        if known is None or present is None or known.id != present.id or partition >= len(known.leaders):
            return codes.UNKNOWN_TOPIC, None, None
        leaders = (known.leaders[partition].broker, present.leaders[partition].broker)
        if leaders != (self.number, self.number):
            return codes.NOT_LEADER, None, None
        return codes.NONE, present, self.cluster.log(present, partition)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Calls a function some seconds later, unless the broker has ended until then."""
        starts = self.starts

        def act() -> None:
            if self.up and self.starts == starts:
                call()

        self.cluster.scheduler.call_at(self.cluster.scheduler.now + seconds, act)
