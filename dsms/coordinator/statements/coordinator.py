"""The coordinator: takes statements, keeps the catalog, and sees that every fragment has a living executor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog

from connectors.kafka.config import KafkaSettings
from connectors.kafka.names import internal_topic
from connectors.kafka.topics import COMPACTED_SOON, KEPT, delete_topic, ensure_topic, latest, partition_counts
from connectors.redis.cluster_state import ClusterState
from dsms.coordinator.http.service import Document, known
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.access import ResultAccess, Surroundings
from dsms.coordinator.statements.catalog_log import CatalogLog
from dsms.coordinator.statements.control_tables import ControlStatement, ControlTables
from dsms.coordinator.statements.environment import ClusterEnvironment
from dsms.coordinator.statements.idempotency import RedisAnswers
from dsms.coordinator.statements.log_ends import LogEnds
from dsms.coordinator.statements.system_objects import refuse_reserved, system_sources, with_system_objects
from dsms.coordinator.statements.topics import Topics
from dsms.coordinator.tables.loading import LoadPolicy
from dsms.coordinator.tables.statements import TableStatements
from dsms.coordinator.watcher.living_executors import living
from dsms.coordinator.watcher.object_states import States
from dsms.coordinator.watcher.progress import Progress, ReadingRates, places, starts_of
from dsms.introspection.entities import load_by_fragment
from dsms.introspection.sample_records import OPERATORS, QUEUES
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Table, kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.types import type_sql
from dsms.registration.placement import fragments_of
from dsms.registration.replacement import halted, replaced_by, resumed, retired
from dsms.registration.statements import schema_and_keys
from dsms.registration.tables import apply
from dsms.scheduler.leases import RUNNING, Assignment, ExecutorStatus, assign
from dsms.sql.parser.parse import parse
from operators.core.errors import DsmsError, ExternalError, UserError

log = structlog.get_logger()
_TURN_S = 0.5
_DROP_WAIT_S = 5.0
_HALT_WAIT_S = 30.0
_INTERNAL = {
    "catalog": COMPACTED_SOON, "progress": COMPACTED_SOON, "heartbeats": KEPT, "shed": KEPT,
    OPERATORS: COMPACTED_SOON, QUEUES: COMPACTED_SOON,
}  # fmt: skip


class Coordinator:
    """The service behind the REST API. Statements run one by one; all state is in Kafka, with a copy in Redis."""

    def __init__(
        self,
        kafka: KafkaSettings,
        redis_url: str,
        cluster: str,
        registry_url: str | None = None,
        loads: LoadPolicy | None = None,
        fragments: int = 1,
    ) -> None:
        #: How many fragments new queries are dealt out to.
        self.fragments = fragments
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
        self._add_system_objects()
        self.log_ends = LogEnds(kafka, cluster, self.registry, registry_url)
        self._tables = TableStatements(kafka, cluster, loads or LoadPolicy())
        answers = RedisAnswers(redis_url, cluster)
        self.results = ResultAccess(
            Surroundings(kafka, self._cluster, lambda: self._catalog, self.registry, registry_url, answers)
        )
        self.control = ControlTables(self._cluster, lambda: self._catalog, self.execute, self.states)
        self._copy: tuple[Catalog, bytes] | None = None
        self._trouble: dict[str, str] = {}
        self._reading_rates, self._progress, self._looking = ReadingRates(), dict[str, Progress](), threading.Lock()

    def execute(self, sql: str) -> list[StatementResult]:
        """Runs statements; a failing one raises, those before it stay done."""
        with self._lock:
            self._settle()
            return [self._statement(statement) for statement in parse(sql)]

    def settled_version(self) -> int:
        """The version of the catalog when every write so far is decided; ExternalError while it cannot be written."""
        with self._lock:
            self._check_kafka()
            self._settle()
            return self._catalog.version

    def sources(self) -> list[Document]:
        """All sources."""
        return self._documents(self._catalog.sources())

    def streams(self) -> list[Document]:
        """All tagged streams, views and tables included."""
        views = [query for query in self._catalog.queries() if query.kind == "view"]
        tagged: list[Object] = [*self._catalog.streams(), *self._catalog.tables(), *views]
        return self._documents(tagged)

    def queries(self) -> list[Document]:
        """All continuous queries, views included."""
        return self._documents(self._catalog.queries())

    def describe(self, name: str) -> Document:
        """One object."""
        return self._document(self._known(name), self.states())

    def states(self) -> States:
        """How objects fare, by one look at the executors and one at the topics."""
        return States(self._alive, self._progress, lambda: partition_counts(self._admin))

    def busy(self) -> Mapping[str, float]:
        """How busy the fragments that new queries are dealt out to were last measured to be, in seconds a second; 0
        where that is not known, also while Redis is away."""
        try:
            found = load_by_fragment(self.control.reports())
        except ExternalError as error:
            log.warning("queries are placed by their weights alone", reason=str(error))
            found = {}
        return {name: found.get(name, 0.0) for name in map(str, range(self.fragments))}

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
        return self.results.letters(found, limit)

    def status(self) -> Document:
        """Executors with what they last said, the assignment, and how far queries are behind."""
        alive = self._alive()
        seen = self._seen(alive)
        progress = {one.name: seen[one.id] for one in self._catalog.running() if one.id in seen}
        executors = {name: msgspec.to_builtins(status) for name, status in alive.items()}
        assignments = self._cluster.assignments()
        return {
            "cluster": self._cluster_name, "kafka": self._kafka.bootstrap, "catalog_version": self._catalog.version,
            "executors": executors, "assignments": msgspec.json.decode(assignments) if assignments else {},
            "lag": {name: one.unread for name, one in progress.items()},
            "progress": {name: one.document() for name, one in progress.items()},
        }  # fmt: skip

    def readiness(self) -> dict[str, str]:
        """What keeps the coordinator from working."""
        return dict(self._trouble)

    def turn(self) -> None:
        """One look at the cluster: the copies in Redis are made good, and the fragment gets a living executor."""
        if self.replaced:
            self._trouble = {"leader": "a newer coordinator has taken over"}
            return
        trouble: dict[str, str] = {}
        alive: Mapping[str, ExecutorStatus] = {}
        try:
            alive = self._restore_copies()
        except ExternalError as error:
            trouble["redis"] = str(error)
        try:
            self._check_kafka()
            if self._log.in_doubt:
                with self._lock:
                    self._settle()
            self._follow(alive)
            self._seen(alive)
        except DsmsError as error:
            trouble["kafka"] = str(error)
        self._trouble = trouble

    @property
    def replaced(self) -> bool:
        """Whether a newer coordinator has taken over: this one writes nothing any more."""
        return self._log.replaced

    def watch(self, stopping: threading.Event, when_replaced: Callable[[], None] = lambda: None) -> None:
        """Turns until it is told to stop."""
        while not stopping.wait(_TURN_S):
            self.turn()
            if self.replaced:
                when_replaced()

    def _follow(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Readers of tables beside streams go on; while a statement runs, it is what promises."""
        if self._lock.acquire(blocking=False):
            try:
                self._tables.follow(self._catalog)
                self._go_on(alive)
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
        refuse_reserved(statement, before)
        if isinstance(statement, ControlStatement):
            return self.control.answer(statement)
        if isinstance(statement, st.Select | st.Insert | st.Update | st.Delete | st.LoadFile | st.LoadDatabase):
            self._check_kafka()
            return self._tables.run(statement, before)
        after, result = apply(statement, before, ClusterEnvironment(self))
        if after.version == before.version:
            return result
        if isinstance(statement, st.ReplaceQuery | st.RepairQuery) and (found := replaced_by(statement, before)):
            with self._halted(found):
                after, result = apply(statement, self._catalog, ClusterEnvironment(self, settled=True))
                self._write(after)
            return result
        self._write(after)
        if isinstance(statement, st.SetPaused) and statement.paused:
            self._await_followed(after.version)
        self._remove_topics(before, after)
        for source in after.sources():
            if source.name.lower() not in before.objects:
                self.topics.offer_schema(source)
        if any(table.name.lower() not in before.objects for table in after.tables()):
            self._tables.follow(after)
        return result

    def _write(self, after: Catalog) -> None:
        self._check_kafka()
        self._log.write(self._catalog, after)
        self._catalog = after
        try:
            self._restore_copies()
        except ExternalError as error:
            log.warning("the catalog copy will be made later", reason=str(error))

    @contextmanager
    def _halted(self, queries: list[Query]) -> Iterator[None]:
        """While it lasts queries publish nothing; those that are there after it go on."""
        self._write(halted(self._catalog, queries))
        try:
            if not self._await_followed(self._catalog.version, _HALT_WAIT_S, starting=True):
                raise ExternalError("the executors do not stop the query in time", hint="try again", retryable=True)
            yield
        finally:
            self._go_on({})

    def _go_on(self, alive: Mapping[str, ExecutorStatus]) -> None:
        """Queries whose replacement was broken off go on as they were, and what they were before is forgotten where
        nothing depends on it any more."""
        published = {query: one.frontier for status in alive.values() for query, one in status.lanes.items()}
        changed = [*resumed(self._catalog), *retired(self._catalog, published)]
        if changed:
            self._write(self._catalog.with_changed(*changed))

    def _restore_copies(self) -> Mapping[str, ExecutorStatus]:
        """Catalog and assignments as they should be; gives the executors that live."""
        with self._copying:
            held, body = self._cluster.catalog(), self._encoded_catalog()
            if held != body and (not held or msgspec.json.decode(held, type=Catalog).version <= self._catalog.version):
                self._cluster.set_catalog(body)
        alive, held = self._alive(), self._cluster.assignments()
        current = msgspec.json.decode(held, type=dict[str, Assignment]) if held else {}
        fragments = fragments_of(self._catalog, self.fragments)
        wanted = assign(current, alive, fragments, time.time_ns() // 1_000_000)
        if wanted != current:
            self._cluster.set_assignments(msgspec.json.encode(wanted))
            log.info("fragments assigned", **{name: one.executor for name, one in wanted.items()})
        return alive

    def _encoded_catalog(self) -> bytes:
        """The catalog as its copy, encoded once for each version."""
        catalog = self._catalog
        if self._copy is None or self._copy[0] is not catalog:
            self._copy = catalog, msgspec.json.encode(catalog)
        return self._copy[1]

    def _alive(self) -> dict[str, ExecutorStatus]:
        return living(self._cluster)

    def _log_registry_event(self, event: dict[str, Any]) -> None:
        with self._lock:
            if self._log.in_doubt:
                raise ExternalError("an earlier change to the registry is being settled", hint="try again")
            self._check_kafka()
            self._log.write_event(event)

    def _make_internal_topics(self) -> None:
        for purpose, config in _INTERNAL.items():
            ensure_topic(self._admin, internal_topic(self._cluster_name, purpose), 1, config)

    def _add_system_objects(self) -> None:
        after = with_system_objects(self._catalog, self._cluster_name, self.fragments)
        if after.version != self._catalog.version:
            for source in system_sources(self._cluster_name):
                self.topics.make_dead_letter_topic(source.name)
            self._log.write(self._catalog, after)
            self._catalog = after

    def _remove_topics(self, before: Catalog, after: Catalog) -> None:
        """The result topics of dropped queries go once no executor writes them any more, or a few seconds have
        passed."""
        written: list[Query | Table] = [*before.running(), *before.tables()]
        gone = [found for found in written if found.name.lower() not in after.objects]
        if not gone:
            return
        self._await_followed(after.version)
        for found in gone:
            delete_topic(self._admin, found.topic)
            if isinstance(found, Table):
                self._tables.forget(found)

    def _await_followed(self, version: int, seconds: float = _DROP_WAIT_S, *, starting: bool = False) -> bool:
        """Whether all executors come to a plan in some seconds."""
        waiting, deadline = threading.Event(), time.monotonic() + seconds
        while not (followed := self._followed(version, starting=starting)) and time.monotonic() < deadline:
            waiting.wait(0.1)
        return followed

    def _followed(self, version: int, *, starting: bool = False) -> bool:
        """Whether every running executor has come to a plan, and with `starting` those that are about to run; unknown
        while Redis is away."""
        try:
            statuses = self._alive().values()
        except ExternalError:
            return False
        counted = [status for status in statuses if status.state == RUNNING or (starting and status.fragments)]
        return all(status.plan_version >= version for status in counted)

    def _known(self, name: str) -> Object:
        return known(self._catalog, name)

    def _documents(self, found: Iterable[Object]) -> list[Document]:
        states = self.states()
        return [self._document(one, states) for one in found]

    def _document(self, found: Object, states: States) -> Document:
        schema, keys = schema_and_keys(found, self._catalog)
        columns = [{"name": field.name, "type": type_sql(field.type), "nullable": field.nullable} for field in schema]
        document: Document = {
            "name": found.name, "kind": kind_of(found), "sql": found.sql, "id": found.id, "columns": columns,
            "key": list(keys), "state": states.of(found),
        }  # fmt: skip
        if isinstance(found, Table):
            document |= {"topic": found.topic, "format": "json", "partitions": found.source.partitions}
        if isinstance(found, Source | Query):
            document |= {"topic": found.topic, "format": found.format, "partitions": found.partitions}
        if isinstance(found, Source):
            document |= {"timestamp": found.timestamp, "tagged": found.tagged, "registry": found.registry}
        if isinstance(found, Query):
            document |= {"frontier": states.frontier(found), "start": found.start, "since": found.since}
            document |= {"weight": found.weight, "paused": found.paused, "fragment": found.fragment}
            if found.id in states.progress:
                document["progress"] = states.progress[found.id].document()
        return document

    def _seen(self, alive: Mapping[str, ExecutorStatus]) -> dict[str, Progress]:
        """How far the queries are, by id."""
        sources = [*self._catalog.sources(), *(table.source for table in self._catalog.tables())]
        at = {name: place for source in sources for name, place in places(source).items()}
        ends, starts = latest(self._admin, at.values()), {k: v for one in sources for k, v in starts_of(one).items()}
        found = {name: ends[place] for name, place in at.items() if place in ends}
        with self._looking:
            self._progress = self._reading_rates.seen(time.monotonic(), alive, found, starts)
        return self._progress
