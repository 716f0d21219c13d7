"""`dsms doctor`: all checks of a cluster. They read Kafka and the store of state; the services need not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from connectors.kafka.client.config import KafkaSettings
from connectors.state.cluster import ClusterState
from dsms.coordinator.doctor.finding import Finding
from dsms.coordinator.doctor.foreign_records import foreign_findings
from dsms.coordinator.doctor.log_checks import (
    Logs,
    dropped_findings,
    lost_catalog,
    record_findings,
    result_findings,
    source_findings,
    topic_findings,
)
from dsms.coordinator.doctor.reader_checks import reader_findings
from dsms.coordinator.doctor.state_checks import Documents, cache_findings, document_findings, state_findings
from dsms.coordinator.service.coordinator import INTERNAL_TOPICS
from dsms.state.stores import StateAddress


@dataclass(frozen=True)
class ExaminedCluster:
    """The cluster to examine. `data_dir` is the data directory of its executors, if it is on this machine."""

    kafka: KafkaSettings
    state_url: str = field(repr=False)
    cluster: str
    data_dir: Path | None = None


def examine(examined: ExaminedCluster, *, repair: bool) -> list[Finding]:
    """The problems of the cluster. With `repair`, repairs those that can be repaired without loss and marks them so."""
    return [_repaired(finding) if repair and finding.repair else finding for finding in list(_findings(examined))]


def _repaired(finding: Finding) -> Finding:
    assert finding.repair is not None
    finding.repair()
    return replace(finding, repaired=True)


def _findings(examined: ExaminedCluster) -> Iterator[Finding]:
    logs = Logs(examined.kafka, examined.cluster)
    catalog = logs.catalog
    state = StateAddress(examined.state_url, examined.cluster).open()
    documents = Documents(state.inspection(), ClusterState(state.documents()), catalog)
    known = catalog or documents.copy
    topics = [query.topic for query in known.running()] if known else []
    yield from chain(reader_findings(examined.kafka), topic_findings(logs, INTERNAL_TOPICS))
    yield from lost_catalog(logs, documents.copy)
    yield from record_findings(logs, topics)
    if catalog is not None:
        yield from chain(result_findings(logs, catalog), dropped_findings(logs, catalog))
        yield from source_findings(logs, catalog)
        yield from foreign_findings(logs, catalog)
    yield from chain(document_findings(documents), state_findings(documents))
    if examined.data_dir is not None:
        yield from cache_findings(examined.data_dir, documents)
