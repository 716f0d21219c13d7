"""Reads from Kafka what a checkpoint depends on: identities and ends of topics, and the catalog's log."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.identities import cluster_id
from connectors.kafka.client.names import CATALOG
from connectors.kafka.client.topics import latest, partitions_of, topic_ids
from connectors.kafka.logs.internal_log import InternalLog, undecoded
from dsms.runtime.checkpoints.checkpoint import CurrentLogs

#: The log of a catalog: the last value of each key.
CatalogLog = dict[bytes, bytes]


def topic_facts(kafka: KafkaSettings, topics: Iterable[str]) -> CurrentLogs:
    """The id of the Kafka cluster, and the ids and ends of the given topics."""
    admin, listed = kafka.admin(), sorted(set(topics))
    ends = latest(admin, [(topic, partition) for topic in listed for partition in partitions_of(admin, topic)])
    return CurrentLogs(cluster_id(admin), topic_ids(admin, listed), ends)


def read_catalog_log(kafka: KafkaSettings, cluster: str) -> bytes:
    """A copy of the log of a cluster's catalog."""
    log = InternalLog(kafka, cluster, CATALOG, Alarms())
    last = {entry.key: entry.value for entry in log.read(undecoded, decided=True)}
    return msgspec.msgpack.encode({key: value for key, value in sorted(last.items()) if value is not None})


def catalog_log(copy: bytes) -> CatalogLog:
    """Decodes a copy of the catalog's log."""
    return msgspec.msgpack.decode(copy, type=CatalogLog)
