"""The settings of Kafka clients."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from connectors.kafka.client.connections import Connections

#: The maximum size of a written record, in bytes. It is large because a dead letter contains a whole record.
LARGEST_RECORD = 64 * 1024 * 1024


@dataclass(frozen=True)
class KafkaSettings:
    """The bootstrap address, and client settings under Kafka's own names (security.protocol, sasl.*, ssl.*).

    >>> KafkaSettings("localhost:9092", {"security.protocol": "SSL"}).base()["security.protocol"]
    'SSL'
    """

    bootstrap: str
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    def __hash__(self) -> int:
        return hash((self.bootstrap, frozenset(self.properties.items())))

    def with_properties(self, properties: dict[str, str]) -> Self:
        """The same settings with further client settings, which override the present ones."""
        return replace(self, properties={**self.properties, **properties})

    def connections(self) -> Connections | None:
        """New connections to brokers, if these settings open their own, as those of a simulation do."""
        return None

    def base(self) -> dict[str, object]:
        """The settings that all clients share."""
        return {"bootstrap.servers": self.bootstrap, "log_level": 2, **self.properties}

    def admin(self) -> AdminClient:
        """A new admin client."""
        return AdminClient(self.base())

    def consumer(self, **settings: object) -> Consumer:
        """A new consumer, which reads only committed records, is assigned partitions manually, and never commits
        offsets.
        """
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        return Consumer(
            {
                **self.base(),
                "group.id": "dsms",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "check.crcs": True,  # brokers do not verify what disks return; the native reader always does
                "fetch.queue.backoff.ms": 5,
                "fetch.wait.max.ms": 20,
                **dotted,
            }
        )

    def producer(self, **settings: object) -> Producer:
        """A new idempotent producer, which chooses partitions like Kafka's JVM clients. `on_delivery` gets the delivery
        reports, `logger` the client's log.
        """
        named = {name: settings.pop(name) for name in ("on_delivery", "logger", "log_level") if name in settings}
        dotted = {name.replace("_", "."): value for name, value in settings.items()} | named
        return Producer(
            {
                **self.base(),
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 2_000_000,
                "message.max.bytes": LARGEST_RECORD,
                "queue.buffering.max.kbytes": 1_048_576,
                **dotted,
            }
        )
