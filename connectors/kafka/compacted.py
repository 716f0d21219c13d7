"""A small compacted topic read as a whole: the last value of every key."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from connectors.kafka.config import KafkaSettings
from connectors.kafka.range_reader import read_whole
from connectors.kafka.topics import earliest, latest, partitions_of


def read_log(settings: KafkaSettings, admin: AdminClient, topic: str) -> list[tuple[bytes, bytes | None]]:
    """All committed records of a topic as (key, value), in order within a partition; [] when the topic does not
    exist."""
    wanted = [(topic, partition) for partition in partitions_of(admin, topic)]
    first, last = earliest(admin, wanted), latest(admin, wanted)
    ranges = [(key[1], first[key], last[key]) for key in wanted if last.get(key, 0) > first.get(key, 0)]
    if not ranges:
        return []
    return [(message.key() or b"", message.value()) for message in read_whole(settings, topic, ranges)]


def read_compacted(settings: KafkaSettings, admin: AdminClient, topic: str) -> dict[bytes, bytes]:
    """The last value of each key; deleted keys are left out."""
    last: dict[bytes, bytes | None] = {}
    for key, value in read_log(settings, admin, topic):
        last[key] = value
    return {key: value for key, value in last.items() if value is not None}
