"""Reads how far each result is published, and checks that each version of a query begins where the last one ended."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.kafka.client.names import CATALOG, PROGRESS, internal_topic
from connectors.kafka.logs.internal_log import CUT_OVER_KEY, Entry
from connectors.simulation.kafka.cluster import SimulatedCluster
from dsms.coordinator.catalog.catalog_records import read_part
from dsms.model.objects import Query
from dsms.planner.physical.parts.links import query_of
from dsms.runtime.epoch.progress_log import ResultProgress, read_entry
from dsms.simulation.topics import records_of
from operators.core.delta import BEGINNING


def progress_entries(kafka: SimulatedCluster, cluster: str) -> Iterator[tuple[str, ResultProgress]]:
    """The committed entries for partitions of results, "TOPIC/PARTITION" and what it says, in their order."""
    for record in records_of(kafka, [internal_topic(cluster, PROGRESS)]):
        if record.key is not None and record.key != CUT_OVER_KEY:
            content = read_entry(Entry(record.key, record.value, 0, 0)).content
            if isinstance(content, ResultProgress):
                yield record.key.decode(), content


def joined_versions(kafka: SimulatedCluster, cluster: str) -> Iterator[str]:
    """The versions of queries that publish although a former version has published beyond the instant at which they
    took over, so that the result topic contains instants of both."""
    versions = {item.id: item for item in catalog_items(kafka, cluster) if isinstance(item, Query)}
    upto: dict[str, int] = {}
    for key, entry in progress_entries(kafka, cluster):
        query = versions[query_of(entry.query)]
        since = BEGINNING if query.since is None else query.since
        for former in query.earlier:
            if upto.get(former, BEGINNING) > since:
                yield f"{key}: {query.id} took over at {query.since}, but {former} has published up to {upto[former]}"
        upto[entry.query] = max(entry.frontier, upto.get(entry.query, entry.frontier))


def catalog_items(kafka: SimulatedCluster, cluster: str) -> Iterator[object]:
    """All objects and other parts that were ever in the catalog, in the order in which they came."""
    for record in records_of(kafka, [internal_topic(cluster, CATALOG)]):
        if record.key is not None and record.key != CUT_OVER_KEY:
            yield read_part(Entry(record.key, record.value, 0, 0))[1]
