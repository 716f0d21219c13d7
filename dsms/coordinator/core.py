"""The coordinator: takes statements, keeps the catalog, and sees that every fragment has a living executor."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from connectors.kafka.config import KafkaSettings
from connectors.kafka.dead_letters import last_dead_letters
from connectors.kafka.names import dead_letter_topic, internal_topic
from connectors.kafka.topics import COMPACTED_SOON, KEPT, delete_topic, ensure_topic, latest
from connectors.redis.cluster_state import ClusterState
from dsms.catalog.catalog import Catalog
from dsms.catalog.leases import Assignment, ExecutorStatus, assign
from dsms.catalog.objects import Object, Query, Source, Table, kind_of
from dsms.catalog.register import schema_and_keys
from dsms.catalog.register_table import apply
from dsms.catalog.result import StatementResult
from dsms.coordinator.catalog_log import CatalogLog
from dsms.coordinator.loading import LoadPolicy
from dsms.coordinator.registry import SchemaRegistry
from dsms.coordinator.service import Document, UnknownName
from dsms.coordinator.table_statements import TableStatements
from dsms.coordinator.topics import Topics
from dsms.plan import logical, properties
from dsms.sql import statements as st
from dsms.sql.bind import plan_of
from dsms.sql.parse import parse
from dsms.sql.types import type_sql
from operators.errors import DsmsError, ExternalError, UserError

log = structlog.get_logger()
FRAGMENT = "main"
_TURN_S = 0.5
_DROP_WAIT_S = 5.0


class Coordinator:
    """The service behind the REST API. Statements run one by one; all state is in Kafka, with a copy in Redis."""

    def __init__(
        self,
        kafka: KafkaSettings,
        redis_url: str,
        cluster: str,
        registry_url: str | None = None,
        loads: LoadPolicy | None = None,
    ) -> None:
        self._kafka, self._cluster_name = kafka, cluster
        self._cluster = ClusterState(redis_url, cluster)
        self._admin = kafka.admin()
        self._lock = threading.RLock()
        self._copying = threading.Lock()
        self._make_internal_topics()
        self._log = CatalogLog(kafka, cluster)
        self.registry = SchemaRegistry(self._log_registry_event)
        self.topics = Topics(kafka, self.registry, registry_url)
        self._catalog, events = self._log.read()
        for event in events:
            self.registry.apply(event)
        self._tables = TableStatements(kafka, cluster, loads or LoadPolicy())
        self._trouble: dict[str, str] = {}

    def execute(self, sql: str) -> list[StatementResult]:
        """Runs statements; a failing one raises, those before it stay done."""
        with self._lock:
            self._settle()
            return [self._statement(statement) for statement in parse(sql)]

    def sources(self) -> list[Document]:
        """All sources."""
        return [self._document(found) for found in self._catalog.sources()]

    def streams(self) -> list[Document]:
        """All tagged streams, views and tables included."""
        views = [query for query in self._catalog.queries() if query.kind == "view"]
        tagged: list[Object] = [*self._catalog.streams(), *self._catalog.tables(), *views]
        return [self._document(found) for found in tagged]

    def queries(self) -> list[Document]:
        """All continuous queries, views included."""
        return [self._document(found) for found in self._catalog.queries()]

    def describe(self, name: str) -> Document:
        """One object."""
        return self._document(self._known(name))

    def drop(self, name: str) -> StatementResult:
        """Drops one object that nothing else needs."""
        found = self._known(name)
        return self.execute(f'DROP {kind_of(found).upper()} "{found.name}"')[0]

    def relation(self, name: str, at: int | None) -> Document:
        """The relation of a view, query or table at a final instant, by default the last one."""
        found = self._known(name)
        with self._lock:
            instant, columns, rows = self._tables.relation(found.name, at, self._catalog)
        return {"name": found.name, "at": instant, "columns": columns, "rows": rows}

    def load(self, table: str, path: Path, form: str) -> StatementResult:
        """Adds the rows of a file of ours to a table, at one instant."""
        found = self._known(table)
        with self._lock:
            self._check_kafka()
            return self._tables.load(found.name, path, form, self._catalog)

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        """The latest refused records of a source."""
        found = self._known(source)
        if not isinstance(found, Source):
            raise UserError(f'"{found.name}" is a {kind_of(found)}; dead letters belong to sources')
        return last_dead_letters(self._kafka, self._admin, dead_letter_topic(found.name), limit)

    def status(self) -> Document:
        """Executors with what they last said, the assignment, and how far queries are behind."""
        executors = {name: msgspec.to_builtins(status) for name, status in self._alive().items()}
        assignment = self._cluster.assignment(FRAGMENT)
        return {
            "cluster": self._cluster_name, "kafka": self._kafka.bootstrap, "catalog_version": self._catalog.version,
            "executors": executors, "assignments": {FRAGMENT: msgspec.json.decode(assignment) if assignment else None},
            "lag": self._lag(),
        }  # fmt: skip

    def readiness(self) -> dict[str, str]:
        """What keeps the coordinator from working."""
        return dict(self._trouble)

    def turn(self) -> None:
        """One look at the cluster: the copies in Redis are made good, and the fragment gets a living executor."""
        trouble: dict[str, str] = {}
        try:
            self._restore_copies()
        except ExternalError as error:
            trouble["redis"] = str(error)
        try:
            self._check_kafka()
            if self._log.in_doubt:
                with self._lock:
                    self._settle()
            self._promise_time()
        except DsmsError as error:
            trouble["kafka"] = str(error)
        self._trouble = trouble

    def watch(self, stopping: threading.Event) -> None:
        """Turns until it is told to stop."""
        while not stopping.wait(_TURN_S):
            self.turn()

    def _promise_time(self) -> None:
        """Readers of tables beside streams go on; while a statement runs, it is what promises."""
        if self._lock.acquire(blocking=False):
            try:
                self._tables.follow(self._catalog)
            finally:
                self._lock.release()

    def _check_kafka(self) -> None:
        """Raises ExternalError when Kafka does not answer: a write would take long to fail, and leave its end open."""
        latest(self._admin, [(internal_topic(self._cluster_name, "catalog"), 0)])

    def _settle(self) -> None:
        """After a write that failed half-way, the log says what is so."""
        if self._log.in_doubt:
            self._catalog, events = self._log.read()
            for event in events:
                self.registry.apply(event)

    def _statement(self, statement: st.Statement) -> StatementResult:
        before = self._catalog
        if isinstance(statement, st.Select | st.Insert | st.Update | st.Delete | st.LoadFile | st.LoadDatabase):
            self._check_kafka()
            return self._tables.run(statement, before)
        after, result = apply(statement, before, _Facts(self))
        if after.version == before.version:
            return result
        self._check_kafka()
        self._log.write(before, after)
        self._catalog = after
        try:
            self._restore_copies()
        except ExternalError as error:
            log.warning("the catalog copy will be made later", reason=str(error))
        self._remove_topics(before, after)
        for source in after.sources():
            if source.name.lower() not in before.objects:
                self.topics.offer_schema(source)
        if any(table.name.lower() not in before.objects for table in after.tables()):
            self._tables.follow(after)
        return result

    def _restore_copies(self) -> None:
        with self._copying:
            body = msgspec.json.encode(self._catalog)
            held = self._cluster.catalog()
            known = msgspec.json.decode(held, type=Catalog).version if held else -1
            if held != body and known <= self._catalog.version:
                self._cluster.set_catalog(body)
        held = self._cluster.assignment(FRAGMENT)
        current = msgspec.json.decode(held, type=Assignment) if held else None
        wanted = assign(current, self._alive())
        if wanted is not None and wanted != current:
            self._cluster.set_assignment(FRAGMENT, msgspec.json.encode(wanted))
            log.info("fragment assigned", fragment=FRAGMENT, executor=wanted.executor, lease=wanted.lease)

    def _alive(self) -> dict[str, ExecutorStatus]:
        return {
            name: msgspec.json.decode(body, type=ExecutorStatus) for name, body in self._cluster.executors().items()
        }

    def _log_registry_event(self, event: dict[str, Any]) -> None:
        with self._lock:
            if self._log.in_doubt:
                raise ExternalError("an earlier change to the registry is being settled", hint="try again")
            self._check_kafka()
            self._log.write_event(event)

    def _make_internal_topics(self) -> None:
        for purpose, config in (("catalog", COMPACTED_SOON), ("progress", COMPACTED_SOON), ("heartbeats", KEPT)):
            ensure_topic(self._admin, internal_topic(self._cluster_name, purpose), 1, config)

    def _remove_topics(self, before: Catalog, after: Catalog) -> None:
        """The result topics of dropped queries go once no executor writes them any more, or a few seconds have
        passed."""
        written: list[Query | Table] = [*before.running(), *before.tables()]
        gone = [found for found in written if found.name.lower() not in after.objects]
        if not gone:
            return
        waiting, deadline = threading.Event(), time.monotonic() + _DROP_WAIT_S
        while not self._followed(after.version) and time.monotonic() < deadline:
            waiting.wait(0.1)
        for found in gone:
            delete_topic(self._admin, found.topic)
            if isinstance(found, Table):
                self._tables.forget(found)

    def _followed(self, version: int) -> bool:
        """Whether every running executor has come to a plan; unknown while Redis is away."""
        try:
            statuses = self._alive().values()
        except ExternalError:
            return False
        return all(status.plan_version >= version for status in statuses if status.state == "running")

    def _known(self, name: str) -> Object:
        found = self._catalog.get(name)
        if found is None:
            raise UnknownName("object", name, (one.name for one in self._catalog.objects.values()))
        return found

    def _document(self, found: Object) -> Document:
        schema, keys = schema_and_keys(found, self._catalog)
        columns = [{"name": field.name, "type": type_sql(field.type), "nullable": field.nullable} for field in schema]
        document: Document = {
            "name": found.name, "kind": kind_of(found), "sql": found.sql, "id": found.id, "columns": columns,
            "key": list(keys), "state": self.state_of(found),
        }  # fmt: skip
        if isinstance(found, Table):
            document |= {"topic": found.topic, "format": "json", "partitions": found.source.partitions}
        if isinstance(found, Source | Query):
            document |= {"topic": found.topic, "format": found.format, "partitions": found.partitions}
        if isinstance(found, Source):
            document |= {"timestamp": found.timestamp, "tagged": found.tagged, "registry": found.registry}
        if isinstance(found, Query):
            document["frontier"] = self._frontier(found)
        return document

    def _frontier(self, query: Query) -> int | None:
        return next(
            (status.lanes[query.id].frontier for status in self._alive().values() if query.id in status.lanes), None
        )

    def state_of(self, found: Object) -> str:
        """How an object fares: "registered" and its dead letters, "running", "waiting for an executor", "failed: …"."""
        try:
            if isinstance(found, Source):
                count = sum(status.dead_letters.get(found.name, 0) for status in self._alive().values())
                return f"registered, {count} dead letters" if count else "registered"
            if not isinstance(found, Query):
                return "registered"
            for status in self._alive().values():
                if found.id in status.lanes:
                    error = status.lanes[found.id].error
                    return f"failed: {error.splitlines()[0]}" if error else status.state
        except ExternalError as error:
            return f"unknown: {error}"
        return "waiting for an executor"

    def _lag(self) -> dict[str, int]:
        """The records that each query has still to read."""
        lags: dict[str, int] = {}
        lanes = {lane: held for status in self._alive().values() for lane, held in status.lanes.items()}
        for query in self._catalog.running():
            offsets = lanes[query.id].offsets if query.id in lanes else {}
            read = properties.sources(self._plan(query.name))
            lags[query.name] = sum(self._unread(source, offsets) for source in read)
        return lags

    def _unread(self, source: Source, offsets: Mapping[str, int]) -> int:
        """The records of a source beyond the offsets, which are by `source/partition`."""
        ends = latest(self._admin, [(source.topic, partition) for partition in range(source.partitions)])
        return sum(
            end - offsets.get(f"{source.id}/{partition}", source.start.get(partition, 0))
            for (_, partition), end in ends.items()
        )

    def _plan(self, name: str) -> logical.Node:
        return plan_of(name, self._catalog)


class _Facts:
    """The outside world of registration."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        start = self._coordinator.topics.make_source_topic(topic, partitions)
        self._coordinator.topics.make_dead_letter_topic(name)
        return start

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        return self._coordinator.topics.make_result_topic(query, node)

    def state_of(self, found: Object) -> str:
        return self._coordinator.state_of(found)
