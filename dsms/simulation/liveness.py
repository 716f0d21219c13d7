"""Finds queries that stand still although all sources that they read are silent, and may be idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from connectors.kafka.client.names import PROGRESS, TS_HEADER, internal_topic
from connectors.simulation.kafka.cluster import SimulatedCluster
from dsms.runtime.epoch.progress_log import ResultProgress, result_key
from dsms.simulation.history import History
from dsms.simulation.topics import visible
from dsms.simulation.verdict import Seen


def standing_still(history: History, kafka: SimulatedCluster, cluster: str) -> Iterator[str]:
    """The queries that have not passed all records of their sources. It leaves out those that were replaced, which may
    have failed, and those of which a topic was created again."""
    recreated = {each.topic for each in history.recreated}
    frontiers: dict[bytes | None, bytes | None] = {}
    for record in _records(kafka, [internal_topic(cluster, PROGRESS)]):
        frontiers[record.key] = record.value
    for query, topics in history.reads.items():
        result = kafka.image.topics.get(f"dsms.{query}")
        if result is None or query in history.replaced or topics & recreated:
            continue
        last = max((_instant(record) for record in _records(kafka, topics)), default=-1)
        for partition in range(len(result.leaders)):
            at = _frontier(frontiers.get(result_key(result.name, partition)))
            if at <= last:
                yield f'query "{query}" stands still at {at} in partition {partition}: a source has instant {last}'


def _records(kafka: SimulatedCluster, topics: Iterable[str]) -> Iterator[Seen]:
    for name in topics:
        if (topic := kafka.image.topics.get(name)) is not None:
            for partition in range(len(topic.leaders)):
                yield from visible(kafka.log(topic, partition))


def _instant(record: Seen) -> int:
    return int(dict(record.headers).get(TS_HEADER) or b"-1")


def _frontier(value: bytes | None) -> int:
    return -1 if value is None else msgspec.json.decode(value, type=ResultProgress).frontier
