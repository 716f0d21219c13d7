"""Checks that readers see whole epochs: results, dead letters and progress of an epoch are published together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from connectors.kafka.client.names import PROGRESS, internal_topic, transactional_id
from connectors.simulation.kafka.batches import Batch
from connectors.simulation.kafka.cluster import SimulatedCluster
from connectors.simulation.kafka.log import PartitionLog
from dsms.coordinator.tables.table_logs import WRITER
from dsms.simulation.topics import INTERNAL


def torn_epochs(kafka: SimulatedCluster, cluster: str) -> Iterator[str]:
    """The committed transactions of fragments that are not one epoch each: those with results or dead letters but no
    progress, and those that contain the same entry of progress twice."""
    progress, tables = internal_topic(cluster, PROGRESS), transactional_id(cluster, WRITER)
    for (owner, number), written in _committed(kafka, transactional_id(cluster, "")).items():
        if owner == tables:
            continue  # statements that write tables publish no results
        keys = Counter(record.key for batch in written.get(progress, []) for record in batch.records())
        results = sorted(topic for topic in written if not topic.startswith(INTERNAL))
        where = f"transaction {number} of {owner}"
        if results and not keys:
            yield f"{where} has committed a part of an epoch: records of {', '.join(results)}, but no progress"
        if twice := sorted(key.decode() for key, count in keys.items() if key is not None and count > 1):
            yield f"{where} has committed several epochs at once: progress of {', '.join(twice)}"


def _committed(kafka: SimulatedCluster, prefix: str) -> dict[tuple[str, int], dict[str, list[Batch]]]:
    """The batches of each committed transaction, by topic, for transactional ids that begin with `prefix`."""
    found: dict[tuple[str, int], dict[str, list[Batch]]] = defaultdict(dict)
    markers = [marker for marker in kafka.commit_markers if marker.owner.startswith(prefix)]
    by_marker = {log: _by_marker(log) for log in dict.fromkeys(marker.log for marker in markers)}
    for marker in markers:
        if batches := by_marker[marker.log][marker.offset]:
            found[marker.owner, marker.number].setdefault(marker.topic, []).extend(batches)
    return found


def _by_marker(log: PartitionLog) -> dict[int, list[Batch]]:
    """The batches of each transaction, by the offset of its marker."""
    found: dict[int, list[Batch]] = {}
    open_: dict[int, list[Batch]] = defaultdict(list)
    for batch in log.history:
        if batch.control:
            found[batch.base_offset] = open_.pop(batch.producer, [])
        elif batch.transactional:
            open_[batch.producer].append(batch)
    return found
