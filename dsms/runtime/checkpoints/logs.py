"""Looks at the logs that a checkpoint depends on."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from connectors.kafka.compacted import read_compacted
from connectors.kafka.config import KafkaSettings
from connectors.kafka.identities import cluster_id
from connectors.kafka.names import internal_topic
from connectors.kafka.topics import latest, partitions_of, topic_ids
from dsms.runtime.checkpoints.checkpoint import Logs

#: The log of a catalog: its last entries by key.
CatalogLog = dict[bytes, bytes]


def look(kafka: KafkaSettings, topics: Iterable[str]) -> Logs:
    """The cluster, and the given topics as they are now."""
    admin, listed = kafka.admin(), sorted(set(topics))
    ends = latest(admin, [(topic, partition) for topic in listed for partition in partitions_of(admin, topic)])
    return Logs(cluster_id(admin), topic_ids(admin, listed), ends)


def read_catalog_log(kafka: KafkaSettings, cluster: str) -> bytes:
    """A copy of the log of a cluster's catalog."""
    entries = read_compacted(kafka, kafka.admin(), internal_topic(cluster, "catalog"), decided=True)
    return msgspec.msgpack.encode(dict(sorted(entries.items())))


def catalog_log(copy: bytes) -> CatalogLog:
    """The log in a copy."""
    return msgspec.msgpack.decode(copy, type=CatalogLog)
