"""The coordinator: runs statements, keeps the catalog, and ensures that every fragment (a part of the plan that one
Structured Streaming query runs) has a living executor.

This module only wires the parts together: `CatalogStore` keeps the catalog, `StatementRunner` runs statements,
`ClusterWatcher` looks after the cluster, `ObjectDocuments` and `CoordinatorFacts` serve reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import CATALOG, HEARTBEATS, PROGRESS, SHED, internal_topic
from connectors.kafka.client.topics import COMPACTED_SOON, KEPT, ensure_topic, latest, partition_counts, topic_ids
from connectors.kafka.logs.internal_log import InternalLog
from connectors.kafka.logs.shed_log import logged_decisions
from connectors.state.cluster import ClusterState
from dsms.coordinator.audit.audit_log import AUDIT, AUDIT_TOPIC, RETENTION, AuditLog
from dsms.coordinator.catalog.catalog_log import CatalogLog
from dsms.coordinator.catalog.catalog_store import CatalogStore
from dsms.coordinator.catalog.lookup import Document, ReadableObject, object_named, readable_objects
from dsms.coordinator.catalog.system_objects import system_sources, with_system_objects
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.replays import Replays
from dsms.coordinator.results.result_access import Dependencies, ResultAccess
from dsms.coordinator.service.cluster_facts import CoordinatorFacts
from dsms.coordinator.service.object_documents import ObjectDocuments
from dsms.coordinator.service.settings import CoordinatorSettings
from dsms.coordinator.sinks.sink_runner import SinkRunner
from dsms.coordinator.statements.changes_by_load import ChangesByLoad
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.statements.control_tables import ControlTables
from dsms.coordinator.statements.dropped_topics import LeftTopics
from dsms.coordinator.statements.ended_handovers import end_handovers
from dsms.coordinator.statements.fragments_by_load import more_fragments
from dsms.coordinator.statements.log_ends import LogEnds
from dsms.coordinator.statements.moves_by_load import to_lighter_executor
from dsms.coordinator.statements.orders_by_statistics import OrdersByStatistics
from dsms.coordinator.statements.query_replacement import clean_up_replacements
from dsms.coordinator.statements.statement_runner import StatementRunner
from dsms.coordinator.statements.topics import Topics
from dsms.coordinator.tables.point_selects import Lookup
from dsms.coordinator.tables.table_statements import TableStatements
from dsms.coordinator.watcher.added_partitions import AddedPartitions
from dsms.coordinator.watcher.autoscaler import Autoscaler
from dsms.coordinator.watcher.cluster_watcher import ClusterWatcher, Duty
from dsms.coordinator.watcher.cut_over import CutOver
from dsms.coordinator.watcher.executors import CatalogFollowers
from dsms.coordinator.watcher.history import History
from dsms.coordinator.watcher.query_progress import QueryProgress
from dsms.coordinator.watcher.redis_documents import LeaderView, RedisDocuments
from dsms.introspection.sample_records import OPERATORS, QUEUES
from dsms.model.catalog import Catalog, read_catalog
from dsms.model.instants import time_text
from dsms.model.limits import Limits
from dsms.model.objects import Source, kind_of
from dsms.model.principal import ANYBODY, Caller
from dsms.model.statement_result import StatementResult
from dsms.model.topic_rules import check_published
from dsms.registration.object_columns import schema_and_keys, why_columns_unknown
from dsms.registration.placement import fragments_of
from dsms.statements.registry import kinds_in
from dsms.statements.show.sinks import sink_documents
from dsms.statements.statement_kind import StatementKind
from dsms.tables.one_time_query import OneTimeQueryWithRows
from operators.core.decoding import Malformed
from operators.core.errors import DsmsError, UserError
from operators.expressions.rendering import type_name

INTERNAL_TOPICS = {
    CATALOG: COMPACTED_SOON,
    PROGRESS: COMPACTED_SOON,
    HEARTBEATS: KEPT,
    SHED: KEPT,
    AUDIT: AUDIT_TOPIC,
    OPERATORS: COMPACTED_SOON,
    QUEUES: COMPACTED_SOON,
}


class Coordinator:
    """The service behind the REST API. All state is in Kafka, with a copy in Redis. Creating a coordinator fences older
    ones. Its methods may block; they raise only the errors of `operators.core.errors`.

    The document of an object has "name", "kind", "sql", "state", "topic", "key" (names), "columns" ({"name", "type",
    "nullable"}), "format" ("json" or "avro") and "partitions", if the object has them.
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._settings = settings
        state = settings.state.open(settings.alarms)
        self._cluster = ClusterState(state.documents())
        make_internal_topics(settings.kafka, settings.cluster)
        self.audit = AuditLog(settings.kafka, settings.cluster, settings.alarms)
        self.registry = SchemaRegistry(lambda event: self._store.write_event(event), settings.limits)
        topics = Topics(settings.kafka, self.registry, settings.registry_url)
        leader = LeaderView(settings.cluster, self._catalog, lambda: self._store.leads())
        copies = RedisDocuments(self._cluster, leader, settings.fragments, settings.alarms)
        self._store = CatalogStore(
            log=CatalogLog(settings.kafka, settings.cluster, settings.alarms, self._copied_catalog),
            apply_event=self.registry.apply,
            changed=copies.restore_soon,
        )
        self._store.change(partial(_with_system_objects, settings, topics))
        self._facts = _facts(settings, self._cluster, topics, self.registry, self._catalog)
        self._tables = TableStatements(settings.kafka, leader, settings.loads, settings.limits, settings.alarms)
        self._objects = ObjectDocuments(self._catalog, self._facts.states)
        self.control = ControlTables(
            self._cluster,
            self._catalog,
            self._facts.states,
            alarms=settings.alarms,
        )
        self.answers = state.answers()
        self.results = ResultAccess(
            Dependencies(
                settings.kafka,
                self._facts.alive,
                self._catalog,
                self.registry,
                settings.registry_url,
                settings.alarms,
            )
        )
        self._history = History(self._catalog, lambda: self._facts.progress.latest, self._facts.usage_by_query)
        #: The processes of the sinks. They run once it is started.
        self.sink_runner = SinkRunner(self._store, settings.sinks)
        parts = self._cluster_parts()
        self._runner = StatementRunner(parts)
        self._watcher = ClusterWatcher(self._store, copies, self._duties(parts))

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs statements on behalf of a caller, in order, and returns their results. A failing statement raises; the
        statements before it stay in effect. A SELECT fails once it is cancelled."""
        return self._runner.execute(sql, caller, cancelled)

    def lookup_of(self, sql: str, caller: Caller) -> Lookup | None:
        """The look-up by key in a text, if a text that differs only in values of literals has run before; otherwise
        None. Nothing is parsed."""
        return self._runner.lookup_of(sql, caller)

    def look_up_all(self, lookups: Sequence[Lookup]) -> list[StatementResult | DsmsError]:
        """The answers to look-ups in one view, at one instant."""
        return self._runner.look_up_all(lookups)

    def kinds(self, sql: str) -> list[StatementKind]:
        """The kinds of the statements of a script as they are meant with the present catalog."""
        return kinds_in(sql, self._catalog(), self.limits)

    def readable(self, caller: Caller) -> list[ReadableObject]:
        """The streams, views, queries and tables that the caller may read."""
        return readable_objects(self._catalog(), caller.principal)

    def answered(self, asked: OneTimeQueryWithRows, cancelled: threading.Event) -> StatementResult:
        """DuckDB's answer to a query over the relations that the query comes with."""
        return self._tables.answered(asked, cancelled)

    @property
    def limits(self) -> Limits:
        """The limits of a statement, of a schema, and of all queries together."""
        return self._settings.limits

    def check_subject(self, subject: str, caller: Caller) -> None:
        """Raises UserError for a subject under which only the system registers schemas."""
        self._settings.topic_rules.check_subject(subject, self._catalog(), caller.principal.may_read)

    def check_published(self, topic: str, caller: Caller, *, forced: bool) -> None:
        """Raises UserError if only the system writes the topic, Forbidden if the caller may not write it. An
        administrator may force publishing to a topic of the system."""
        check_published(topic, self._catalog(), caller.principal, forced=forced)

    def settled_version(self) -> int:
        """The version of the catalog after every write so far is settled. Raises ExternalError while the catalog cannot
        be written."""
        return self._store.settled_version()

    def sources(self) -> list[Document]:
        """All sources."""
        return self._objects.sources()

    def streams(self) -> list[Document]:
        """All tagged streams, including views and tables."""
        return self._objects.streams()

    def queries(self) -> list[Document]:
        """All continuous queries, including views."""
        return self._objects.queries()

    def sinks(self) -> list[Document]:
        """All sinks, as SHOW SINKS lists them."""
        return sink_documents(self._catalog(), self.sink_runner.states())

    def describe(self, name: str) -> Document:
        """The document of one object. Raises UnknownName if it does not exist."""
        return self._objects.describe(name)

    def drop(self, name: str, caller: Caller) -> StatementResult:
        """Drops one object, if no other object needs it. Raises UnknownName if it does not exist."""
        item = object_named(self._catalog(), name)
        return self.execute(f'DROP {kind_of(item).upper()} "{item.name}"', caller)[0]

    def relation(self, name: str, at: int | None, most: int) -> Document:
        """A view, query or table at a final instant, by default the last one: "name", "at" (the instant), "columns"
        (names), their SQL "types", at most `most` "rows" and the "total" number of rows. Raises UnknownName if it does
        not exist."""
        item = object_named(self._catalog(), name)
        relation = self._tables.relation(item.name, at, most)
        schema, _ = schema_and_keys(item, self._catalog())
        types = [type_name(schema.field(column).type) for column in relation.columns]
        shown = {"at": relation.instant, "columns": relation.columns, "types": types, "rows": relation.rows}
        return {"name": item.name, **shown, "total": relation.total}

    def load(self, table: str, path: Path, form: str, caller: Caller) -> StatementResult:
        """Adds the rows of a file ("csv" or "parquet") on the coordinator's machine to a table, at one instant."""
        item = object_named(self._catalog(), table)
        self._store.check()
        return self._tables.load_file(item.name, path, form, caller.principal)

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        """The latest dead letters of a source with their reasons, at most `limit`."""
        item = object_named(self._catalog(), source)
        if not isinstance(item, Source):
            raise UserError(f'"{item.name}" is a {kind_of(item)}; only sources have dead letters')
        return self.results.dead_letters(item, limit)

    def history(self, name: str, minutes: int) -> list[Document]:
        """The load of a query in the last minutes, oldest first: the fields of `Sample`, with its time in ISO 8601.
        Raises UnknownName if it does not exist."""
        since = time.time_ns() // 1_000_000 - minutes * 60_000
        samples = self._history.of(object_named(self._catalog(), name).id, since)
        return [{**sample._asdict(), "at": time_text(sample.at)} for sample in samples]

    def status(self) -> Document:
        """The executors with their last reports, the assignments, and the lag of queries; "kafka" is the bootstrap
        address for clients."""
        names = {"cluster": self._settings.cluster, "kafka": self._settings.kafka.bootstrap}
        return names | self._facts.status(self._catalog())

    def readiness(self) -> dict[str, str]:
        """The reasons why the coordinator is not ready, by dependency; empty if it is."""
        return self._watcher.readiness()

    def turn(self) -> None:
        """Looks after the cluster once: restores the copies in Redis, assigns each fragment to a living executor, and
        runs the duties."""
        self._watcher.turn()

    def watch(
        self,
        stopping: threading.Event,
        when_replaced: Callable[[], None] = lambda: None,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Repeats `turn` until `stopping` is set. Calls `progress` before each turn. When a newer coordinator has taken
        over, ends the sinks and calls `when_replaced`."""

        def replaced() -> None:
            self.sink_runner.stop()
            when_replaced()

        self._watcher.watch(stopping, replaced, progress)

    def _catalog(self) -> Catalog:
        return self._store.catalog

    def _copied_catalog(self) -> Catalog | None:
        """The copy of the catalog in Redis; None if it is missing or invalid."""
        try:
            return read_catalog(self._cluster.catalog(), self._settings.cluster)
        except Malformed:
            return None

    def _cluster_parts(self) -> ClusterParts:
        return ClusterParts(
            store=self._store,
            facts=self._facts,
            control=self.control,
            tables=self._tables,
            replays=Replays(self._settings.kafka, self._settings.cluster, self._catalog, self._settings.alarms),
            delete_topic=self._tables.delete_topic,
            plans=CatalogFollowers(self._facts.alive),
            limits=self._settings.limits,
            registry_hosts=self._settings.registry_hosts,
            python=self._settings.python,
            topic_rules=self._settings.topic_rules,
            caller=ANYBODY,
            audit=self.audit,
            check_sink_target=self._settings.sinks.check,
            sink_states=self.sink_runner.states,
            decisions=partial(logged_decisions, self._settings.kafka, self._settings.cluster, self._settings.alarms),
        )

    def _duties(self, parts: ClusterParts) -> tuple[Duty, ...]:
        return (
            lambda _: self._tables.try_send_heartbeats(),
            lambda _: self._tables.try_keep_indexes(self._catalog()),
            partial(clean_up_replacements, parts),
            partial(end_handovers, parts),
            LeftTopics(parts),
            self._facts.progress.measure,
            lambda _: self._history.turn(),
            lambda _: self.sink_runner.turn(),
            self._cut_over(),
            AddedPartitions(
                self._store, self._facts.partition_counts, self._facts.topic_ids, self._facts.log_ends.furthest
            ).turn,
            ChangesByLoad(
                parts, lambda: self._facts.progress.latest, (more_fragments(parts), to_lighter_executor(parts))
            ).turn,
            OrdersByStatistics(parts, self._facts.statistics).turn,
            *self._autoscaling(),
        )

    def _autoscaling(self) -> tuple[Duty, ...]:
        if self._settings.executors is None:
            return ()
        return (Autoscaler(*self._settings.executors, self._catalog, lambda: self._facts.progress.latest).turn,)

    def _cut_over(self) -> CutOver:
        settings = self._settings
        logs = [
            InternalLog(settings.kafka, settings.cluster, purpose, settings.alarms, "cut-over")
            for purpose in (PROGRESS, HEARTBEATS, SHED)
        ]
        return CutOver(settings.kafka, settings.cluster, tuple(logs), self._fragments)

    def _fragments(self) -> list[str]:
        return fragments_of(self._catalog(), self._settings.fragments)


def make_internal_topics(kafka: KafkaSettings, cluster: str) -> None:
    """Creates the internal topics, unless they exist."""
    admin = kafka.admin()
    for purpose, config in INTERNAL_TOPICS.items():
        ensure_topic(admin, internal_topic(cluster, purpose), 1, {**config, **(RETENTION if purpose == AUDIT else {})})


def _with_system_objects(settings: CoordinatorSettings, topics: Topics, catalog: Catalog) -> tuple[Catalog, None]:
    after = with_system_objects(catalog, settings.cluster, settings.fragments)
    for source in system_sources(settings.cluster) if after.version != catalog.version else ():
        topics.make_dead_letter_topic(source.name)
    return after, None


def _facts(
    settings: CoordinatorSettings,
    cluster: ClusterState,
    topics: Topics,
    registry: SchemaRegistry,
    catalog: Callable[[], Catalog],
) -> CoordinatorFacts:
    admin = settings.kafka.admin()
    progress = InternalLog(settings.kafka, settings.cluster, PROGRESS, settings.alarms)
    return CoordinatorFacts(
        cluster=cluster,
        fragments=settings.fragments,
        topics=topics,
        log_ends=LogEnds(settings.kafka, progress, catalog, registry, settings.registry_url),
        progress=QueryProgress(catalog, partial(latest, admin)),
        partition_counts=partial(partition_counts, admin),
        topic_ids=lambda: topic_ids(admin, [source.topic for source in catalog().sources()]),
        planning_error=lambda query: why_columns_unknown(query, catalog()),
        alarms=settings.alarms,
    )
