"""Where partitions end, asked on a connection that is kept."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import TIMEOUT_S, Partition, latest, written


class PartitionEnds:
    """The law: the ends are those that `latest` and `written` return. A consumer asks for them with a quarter of the
    CPU time of an admin client, and without a thread for the answer. If a partition is not known, or its leader moves,
    the admin client asks instead, since it waits for a leader. Several threads may use it."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._admin = kafka.admin()
        self._committed, self._uncommitted = kafka.consumer(), kafka.consumer(isolation_level="read_uncommitted")

    def committed(self, wanted: Iterable[Partition]) -> dict[Partition, int]:
        """The offset after the last committed record of each partition; leaves out unknown partitions."""
        places = list(wanted)
        return _ends(self._committed, places) or latest(self._admin, places)

    def written(self, wanted: Iterable[Partition]) -> dict[Partition, int]:
        """The offset after the last record of each partition, including records of open transactions."""
        places = list(wanted)
        return _ends(self._uncommitted, places) or written(self._admin, places)

    def close(self) -> None:
        """Closes the connections."""
        self._committed.close()
        self._uncommitted.close()


def _ends(consumer: Consumer, places: list[Partition]) -> dict[Partition, int] | None:
    """The ends of all partitions; None if the end of one of them is not certain."""
    try:
        found = consumer.offsets_for_times([TopicPartition(*place, OFFSET_END) for place in places], TIMEOUT_S)
    except KafkaException:
        return None  # the admin client says why
    finally:
        consumer.poll(0)  # removes events of the connection, which would accumulate
    if any(each.error is not None or each.offset < 0 for each in found):
        return None
    return {(each.topic, each.partition): each.offset for each in found}
