"""The state of the cluster as the coordinator sees it: living executors, loads, progress, and the states of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import structlog

from connectors.alarms import Alarm, Alarms, merged
from connectors.state.cluster import ClusterState
from dsms.coordinator.catalog.lookup import Document
from dsms.coordinator.statements.control_tables import last_reports
from dsms.coordinator.statements.log_ends import LogEnds
from dsms.coordinator.statements.topics import Topics
from dsms.coordinator.watcher.executors import living_executors
from dsms.coordinator.watcher.object_states import States
from dsms.coordinator.watcher.query_progress import QueryProgress
from dsms.introspection.entities import QueryUsage, Report, load_by_fragment, load_by_queries, usage_by_query
from dsms.introspection.statistics import statistics_of
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.placement.leases import ExecutorStatus, read_assignments
from dsms.planner.physical.cost.estimate import Statistics
from operators.core.decoding import Malformed
from operators.core.errors import ExternalError

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class CoordinatorFacts:
    """The facts on which the execution of statements depends. `partition_counts` returns the number of partitions of
    each topic, `topic_ids` the ids of the topics of sources, `planning_error` why a query cannot be planned (empty
    if it can)."""

    cluster: ClusterState
    fragments: int
    topics: Topics
    log_ends: LogEnds
    progress: QueryProgress
    partition_counts: Callable[[], Mapping[str, int]]
    topic_ids: Callable[[], Mapping[str, str]]
    planning_error: Callable[[Query], str]
    #: The invalid data that this process has read.
    alarms: Alarms = field(default_factory=Alarms, compare=False)

    def alive(self) -> dict[str, ExecutorStatus]:
        """The last reports of the living executors, by name."""
        return living_executors(self.cluster, self.alarms)

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return self.cluster.name

    def cluster_mark(self) -> str | None:
        """The name of the cluster if the records of new results and tables get its mark; None while there is a living
        executor of a version that writes no marks, or while the executors are unknown."""
        try:
            all_do = all(status.names_cluster_in_results for status in self.alive().values())
            return self.cluster.name if all_do else None
        except ExternalError:
            return None

    def states(self) -> States:
        """The states of objects, for one listing: executors and topics are read at most once each."""
        return States(self.alive, self.progress.latest, self.partition_counts, self.topic_ids, self.planning_error)

    def utilization(self) -> Mapping[str, float]:
        """The last measured load, in busy seconds per second, of the fragments to which new queries are assigned; 0 if
        it is unknown, as while Redis is unavailable."""
        loads = load_by_fragment(self._reports())
        return {name: loads.get(name, 0.0) for name in map(str, range(self.fragments))}

    def load_by_queries(self) -> Mapping[tuple[str, frozenset[str]], float]:
        """The last measured load of operators, by their fragment and the names of the queries and shared subplans that
        they serve, in the unit of `utilization`; nothing is known while Redis is unavailable."""
        return load_by_queries(self._reports())

    def usage_by_query(self) -> Mapping[str, QueryUsage]:
        """The last measured load and state of queries, by name; nothing is known while Redis is unavailable."""
        return usage_by_query(self._reports())

    def statistics(self) -> Statistics:
        """The last statistics that the executors measured; empty while Redis is unavailable."""
        return statistics_of(self._reports())

    def _reports(self) -> list[Report]:
        try:
            return last_reports(self.cluster, self.alarms)
        except ExternalError as error:
            log.warning("the reports of executors cannot be read", reason=str(error))
            return []

    def status(self, catalog: Catalog) -> Document:
        """The executors with their last reports, the assignments, and the lag of queries."""
        alive = self.alive()
        by_id = self.progress.measure(alive)
        progress = {query.name: by_id[query.id] for query in catalog.running() if query.id in by_id}
        return {
            "catalog_version": catalog.version,
            "executors": {name: _document(status) for name, status in alive.items()},
            "assignments": self._assignments(),
            "lag": {name: reached.unread for name, reached in progress.items()},
            "progress": {name: reached.document() for name, reached in progress.items()},
            "alarms": alarm_documents([self.alarms.all(), *(status.alarms for status in alive.values())]),
        }

    def _assignments(self) -> Document:
        try:
            assigned = read_assignments(self.cluster.assignments())
        except Malformed:  # the watcher raises the alarm, and writes them again
            assigned = {}
        return {name: msgspec.to_builtins(taken) for name, taken in assigned.items()}


def _document(status: ExecutorStatus) -> Document:
    """The status of an executor, without its alarms, which are listed with those of all processes."""
    document: Document = msgspec.to_builtins(status)
    return {name: value for name, value in document.items() if name not in ("alarms", "marks", "marks_results")}


def alarm_documents(parts: Iterable[Iterable[Alarm]]) -> list[Document]:
    """The alarms of several processes, as the HTTP interface serves them."""
    return [msgspec.to_builtins(alarm) for alarm in merged(parts)]
