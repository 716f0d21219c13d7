"""Watching the frontier of a result topic: when which part of the results became visible."""

import time
from dataclasses import dataclass

import msgspec
from confluent_kafka import TopicPartition

from connectors.kafka.config import KafkaSettings
from connectors.kafka.names import internal_topic
from connectors.kafka.topics import latest, partitions_of


@dataclass(frozen=True)
class Moved:
    """A frontier seen at a moment of this process's monotonic clock."""

    seen_s: float
    frontier: int


class FrontierWatch:
    """Reads the progress topic from its present end, committed records only."""

    def __init__(self, kafka: KafkaSettings, cluster: str, topic: str) -> None:
        progress = internal_topic(cluster, "progress")
        admin = kafka.admin()
        ends = latest(admin, [(progress, partition) for partition in partitions_of(admin, progress)])
        self._consumer = kafka.consumer(enable_partition_eof=False)
        self._consumer.assign([TopicPartition(*place, end) for place, end in ends.items()])
        self._key = f"{topic}/0".encode()
        self._consumer.poll(0.1)

    def next(self, timeout_s: float) -> Moved | None:
        """The next move, or None when there was none in time."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(min(left, 0.1))
            if message is None or message.error() is not None or message.key() != self._key:
                continue
            value = message.value()
            if value is not None:
                return Moved(time.monotonic(), int(msgspec.json.decode(value)["frontier"]))
        return None

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()
