"""Finds queries that stand still although all sources that they read are silent, and may be idle."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.kafka.client.names import TS_HEADER
from connectors.simulation.kafka.cluster import SimulatedCluster
from dsms.simulation.history import History
from dsms.simulation.progress import progress_entries
from dsms.simulation.topics import records_of
from dsms.simulation.verdict import Seen


def standing_still(history: History, kafka: SimulatedCluster, cluster: str) -> Iterator[str]:
    """The queries that have not passed all records of their sources. It leaves out those that were replaced, which may
    have failed, and those of which a topic was created again."""
    recreated = {each.topic for each in history.recreated}
    frontiers = {key: entry.frontier for key, entry in progress_entries(kafka, cluster)}
    for query, topics in history.reads.items():
        result = kafka.image.topics.get(f"dsms.{query}")
        if result is None or query in history.replaced or topics & recreated:
            continue
        last = max((_instant(record) for record in records_of(kafka, topics)), default=None)
        if last is None:
            continue
        for partition in range(len(result.leaders)):
            at = frontiers.get(f"{result.name}/{partition}")
            if at is None or at <= last:
                yield f'query "{query}" stands still at {at} in partition {partition}: a source has instant {last}'


def _instant(record: Seen) -> int:
    return int(dict(record.headers).get(TS_HEADER) or b"-1")
