"""Runs statements that write tables, and one-time SELECTs, on a cluster."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import structlog

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import Partition, delete_topic, latest, partition_counts, topic_ids
from dsms.coordinator.results.kept_result import KeptResult
from dsms.coordinator.results.relations import Reading, Ready, Relations
from dsms.coordinator.results.result_follower import ResultFollower
from dsms.coordinator.tables.load_policy import LoadPolicy
from dsms.coordinator.tables.point_selects import PointSelect, PointSelects, fresh
from dsms.coordinator.tables.reads import Reads
from dsms.coordinator.tables.table_logs import ClusterTables
from dsms.coordinator.watcher.redis_documents import LeaderView
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.limits import Limits
from dsms.model.objects import Table
from dsms.model.principal import Principal
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.planner.physical.parts.links import link_topics
from dsms.registration.table_targets import writable
from dsms.sql.binder.scalars.current_time import at_instant
from dsms.statements.dml.insert_stream import check_empty
from dsms.tables.dml_effects import Write, effects_of, load_effects, names_read, returning_query
from dsms.tables.effect import counted
from dsms.tables.equal_values import equal_values
from dsms.tables.loading import batches_of, rows_of_file
from dsms.tables.one_time_query import OneTimeQuery, OneTimeQueryWithRows, as_shown, one_time_query_of
from dsms.tables.promising.visits import Coverage, PromisingSelect, promising_select
from dsms.tables.quick_selects import QuickSelects
from dsms.tables.select_budget import Budget
from dsms.tables.select_pool import SelectPool
from dsms.tables.select_process import Reply
from dsms.tables.sought_values import sought_values
from operators.core.errors import DsmsError

#: The query of a SELECT: over all rows, or over promising regions first.
Asking = OneTimeQuery | PromisingSelect
log = structlog.get_logger()
_LONGEST_PAUSE_S = 60.0
#: The niceness of SELECT processes: they run when the coordinator and the executors leave processor time.
_NICENESS = 19


class TableStatements:
    """Runs INSERT, UPDATE, DELETE, loads and SELECT, each over the catalog that is current when its turn comes.

    One statement writes at a time, so all tables have one clock. A SELECT delays writes only while it reads tables,
    which are in memory. While it reads results, it delays only the deletion of their topics.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        leader: LeaderView,
        loads: LoadPolicy,
        limits: Limits,
        alarms: Alarms,
    ) -> None:
        self._tables = ClusterTables(kafka, leader, alarms)
        self._relations = Relations(kafka, leader.cluster, self._tables, alarms, limits.kept_results_mb)
        self._loads, self._catalog = loads, leader.catalog
        self._admin, self._cluster = kafka.admin(), leader.cluster
        self._running, self._reads = threading.Lock(), Reads()
        self._selects, self._writes = SelectPool(limits, limits.selects, _NICENESS), SelectPool(limits, 1)
        self._quick = QuickSelects(limits, self._selects)
        self._points = PointSelects(self._relations, self._catalog, self._reads, limits)
        self._pace = _HeartbeatPace()
        self._version = -1
        self._joined_partitions: set[Partition] = set()
        self._follower = ResultFollower(partial(self._follow_results, limits))

    def close(self) -> None:
        """Ends the processes of SELECTs, and following results."""
        self._follower.close()
        self._relations.close()
        self._quick.close()
        self._selects.close()
        self._writes.close()

    def _follow_results(self, limits: Limits, closed: threading.Event) -> None:
        with self._reads.reading():
            self._relations.follow_recent(Budget.of(limits, closed))

    def write(self, statement: Write, principal: Principal) -> StatementResult:
        """Runs a statement that writes rows. If it fails, it has changed nothing."""
        with self._writing(statement.table, principal) as (table, catalog):
            return self._write(statement, table, catalog, principal)

    def load(self, statement: Load, principal: Principal) -> StatementResult:
        """Adds the rows of a file or database of the statement. If it fails, it has changed nothing."""
        with self._writing(statement.table, principal) as (table, catalog):
            return self._load(table, batches_of(self._loads.checked(statement), table), catalog)

    def load_file(self, name: str, path: Path, form: str, principal: Principal) -> StatementResult:
        """Adds the rows of a file that was sent to the coordinator."""
        clause = st.Clause("format", (form,), st.TextLocation())
        with self._writing(st.Name(name), principal) as (table, catalog):
            return self._load(table, rows_of_file(path, table, (clause,)), catalog)

    @contextmanager
    def _writing(self, name: st.Name, principal: Principal) -> Iterator[tuple[Table, Catalog]]:
        """The table of a name, and the catalog; inside the block, no other statement writes a table."""
        with self._running:
            catalog = self._catalog()
            table = writable(name, catalog)
            principal.check_write_topic(table.topic)
            yield table, catalog

    def relation(self, name: str, at: int | None, most: int) -> RelationRows:
        """The relation of one object at an instant, with at most `most` of its rows."""
        with self._selects.admitted() as budget:
            asked = OneTimeQuery("", {name: name})
            read = self._snapshot(lambda _: asked, lambda _, catalog: self._relations.final(name, at, catalog), budget)
            rows = read.rows[name].slice(0, most)
            budget.check_answer(rows.nbytes)
            columns = [column.to_pylist() for column in rows.columns]
        assert read.instant is not None
        return RelationRows(read.instant, rows.column_names, list(zip(*columns, strict=True)), read.rows[name].num_rows)

    def delete_topic(self, dropped: DroppedTopic) -> None:
        """Deletes the result topic of a dropped query or the log of a dropped table, after the statements that still
        read it. A topic that was created later under the same name is kept."""
        with self._running, self._reads.paused():
            current = topic_ids(self._admin, [dropped.topic]).get(dropped.topic)
            if dropped.topic_id is None or current in (dropped.topic_id, None):
                delete_topic(self._admin, dropped.topic)
            if dropped.linked:
                self._delete_links(dropped.owner)
            self._tables.forget(dropped.owner)
            self._relations.forget(dropped.owner)

    def _delete_links(self, query: str) -> None:
        """Deletes the links of a query: the internal topics through which its fragments exchanged elements."""
        prefix = link_topics(self._cluster, query)
        for topic in partition_counts(self._admin):
            if topic.startswith(prefix):
                delete_topic(self._admin, topic)

    @contextmanager
    def locked_empty(self, name: st.Name) -> Iterator[dict[int, int]]:
        """The end offsets of the log of an empty table, which gets no rows inside the block. Raises UserError if the
        table has rows."""
        with self._running:
            table = writable(name, self._catalog())
            check_empty(table, self._tables.content(table).rows().num_rows)
            yield self._tables.ends(table)

    def send_heartbeats(self) -> None:
        """Sends heartbeats to the readers of tables, if some wait for them."""
        with self._running:
            self._send_heartbeats(self._catalog())

    def try_keep_indexes(self, catalog: Catalog) -> None:
        """Frees the indexes that the catalog does not have any more; does nothing while a statement runs."""
        self._relations.keep_indexes(catalog)
        if self._running.acquire(blocking=False):
            try:
                self._tables.keep_indexes(catalog)
            finally:
                self._running.release()

    def try_send_heartbeats(self) -> None:
        """Like `send_heartbeats`, but does nothing while a statement runs: the statement itself sends heartbeats."""
        if self._running.acquire(blocking=False):
            try:
                self._send_heartbeats(self._catalog())
            finally:
                self._running.release()

    def _send_heartbeats(self, catalog: Catalog) -> None:
        """Sends heartbeats if they are due. Readers of a table and a stream need them as long as the stream advances;
        readers of tables alone need one, until the table is written for the first time."""
        tables = catalog.written_tables()
        if catalog.version != self._version:
            self._joined_partitions = set(_partitions_joined_with_tables(catalog))
            waiting = bool(self._joined_partitions or self._tables.without_heartbeat(tables))
            self._pace, self._version = _HeartbeatPace(), catalog.version
        else:
            waiting = bool(self._joined_partitions)
        if tables and waiting and self._pace.due(latest(self._admin, self._joined_partitions)):
            self._tables.send_heartbeats(tables)

    def _write(self, statement: Write, table: Table, catalog: Catalog, principal: Principal) -> StatementResult:
        content = self._tables.content(table)
        now = _now()
        with self._writes.admitted() as budget:
            relation = self._relations.now(_readable(names_read(statement, catalog), principal), catalog, budget)
            relation = as_shown(relation, catalog, None if isinstance(statement, st.Insert) else table)
            effects = effects_of(
                statement, catalog, lambda asked: self._writes.rows(asked.over(relation), budget), content, now
            )
            asked = returning_query(statement, catalog, effects, content, now)
            reply = self._writes.reply(asked, "json", budget) if asked is not None else Reply((), 0, bytearray(b"[]"))
        count, instant = self._tables.write(table, catalog.written_tables(), effects)
        verb, rows = type(statement).__name__.upper(), reply.encoded
        return StatementResult(verb, counted(count, instant), reply.columns, rows, name=table.name, types=reply.types)

    def select(self, statement: st.Select, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Runs a SELECT, which fails once it is cancelled."""
        statement = replace(statement, select=at_instant(statement.select, _now()))
        with self._selects.admitted(cancelled) as budget:
            read = self._snapshot(partial(_asked, statement, principal), self._common_instant, budget)
            relation, seen = as_shown(read.rows.__getitem__, read.catalog), list[Coverage]()
            if isinstance(read.asking, PromisingSelect):
                answer = partial(self._quick.reply, form="json", budget=budget)
                reply, seen = read.asking.answered(relation, read.instant, answer, check_size=budget.check_relation)
            else:
                reply = self._quick.reply(read.asking.over(relation), "json", budget)
        rows, notices = reply.encoded, tuple(map(str, seen))
        return fresh(StatementResult("SELECT", "", reply.columns, rows, notices, types=reply.types), read.instant)

    def point_select(self, sql: str, *, known: bool = False) -> PointSelect | None:
        """The SELECT of a text that only looks up rows of a view by key; None for any other text. `known`: also None
        for a text that would have to be parsed first."""
        return self._points.of(sql, known=known)

    def look_up(self, select: PointSelect, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """Runs such a SELECT, which is not one of the limited number of SELECTs that run and wait."""
        return self._points.answer(select, principal, cancelled)

    def look_up_all(self, asked: Sequence[tuple[PointSelect, Principal]]) -> list[StatementResult | DsmsError]:
        """Runs such SELECTs over one view, all at one instant."""
        return self._points.answers(asked, threading.Event())

    def answered(self, asked: OneTimeQueryWithRows, cancelled: threading.Event) -> StatementResult:
        """DuckDB's answer to a query over the relations that the query comes with."""
        with self._selects.admitted(cancelled) as budget:
            reply = self._quick.reply(asked, "json", budget)
        rows = reply.encoded
        return StatementResult("SELECT", f"{reply.count} rows", reply.columns, rows, types=reply.types)

    def _common_instant(self, asking: Asking, catalog: Catalog) -> int | None:
        as_of = asking.as_of if isinstance(asking, OneTimeQuery) else None
        if as_of is None:
            return self._relations.common_instant(asking.objects.values(), catalog)
        for name in asking.objects.values():
            self._relations.final(name, as_of, catalog)
        return as_of

    def _snapshot(
        self, ask: Callable[[Catalog], Asking], choose: Callable[[Asking, Catalog], int | None], budget: Budget
    ) -> _Snapshot:
        """All rows that a query reads, as of the instant that is chosen once results are ready."""
        ask = _asked_once(ask)
        ready = self._ready(ask, budget)
        if (found := self._snapshot_of_results(ask, choose, ready, budget)) is not None:
            return found
        with self._running:
            catalog = self._catalog()
            asked = ask(catalog)
            instant = choose(asked, catalog)
            reading, names = _reading(asked, ready, catalog), list(asked.objects.values())
            relation = self._relations.at(instant, catalog, budget, reading)
            tables = {name: relation(name) for name in names if isinstance(catalog.find(name), Table)}
            self._reads.begin()
        try:
            results = {name: relation(name) for name in names if name not in tables}
        finally:
            self._reads.end()
        return _Snapshot(asked, instant, tables | results, catalog)

    def _ready(self, ask: Callable[[Catalog], Asking], budget: Budget) -> Ready:
        """Makes the results ready that a query reads, without holding up other statements."""
        with self._reads.reading():
            catalog = self._catalog()
            asked = ask(catalog)
            apart, ready = _read_separately(asked), dict[str, KeptResult]()
            for names in ({*asked.objects.values()} - apart, *({name} for name in apart)):
                ready |= self._relations.make_ready(names, catalog, budget)
            return ready

    def _snapshot_of_results(
        self,
        ask: Callable[[Catalog], Asking],
        choose: Callable[[Asking, Catalog], int | None],
        ready: Ready,
        budget: Budget,
    ) -> _Snapshot | None:
        """Like `_snapshot`, without waiting for statements that write tables; None if the query reads a table."""
        with self._reads.reading():
            catalog = self._catalog()
            asked = ask(catalog)
            if any(isinstance(catalog.find(name), Table) for name in asked.objects.values()):
                return None
            instant = choose(asked, catalog)
            relation = self._relations.at(instant, catalog, budget, _reading(asked, ready, catalog))
            rows = {name: relation(name) for name in asked.objects.values()}
            return _Snapshot(asked, instant, rows, catalog)

    def _load(self, table: Table, batches: Iterator[pa.Table], catalog: Catalog) -> StatementResult:
        now, content = _now(), self._tables.content(table)
        effects = load_effects(table, batches, catalog, self._rows_over_given_relations, content, now)
        count, instant = self._tables.write(table, catalog.written_tables(), effects)
        return StatementResult("LOAD", counted(count, instant), name=table.name)

    def _rows_over_given_relations(self, asked: OneTimeQuery) -> pa.Table:
        """The rows of a query over the relations that it comes with."""
        with self._writes.admitted() as budget:
            return self._writes.rows(OneTimeQueryWithRows(asked.sql, dict(asked.given)), budget)


@dataclass(frozen=True)
class RelationRows:
    """A relation at an instant: its first rows, and the total number of its rows."""

    instant: int
    columns: list[str]
    rows: list[tuple[object, ...]]
    total: int


@dataclass(frozen=True)
class _Snapshot:
    """A query, and the rows of the objects that it reads, as of an instant (None: it reads none)."""

    asking: Asking
    instant: int | None
    rows: dict[str, pa.Table]
    catalog: Catalog


def _now() -> dt.datetime:
    """The current time in UTC."""
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=time.time_ns() // 1_000)


def _asked(statement: st.Select, principal: Principal, catalog: Catalog) -> Asking:
    """The query of a SELECT. Raises Forbidden if the principal may not read one of its objects."""
    asking: Asking = (asked := one_time_query_of(statement.select, catalog, instants=True))
    _readable(asked.objects.values(), principal)
    if statement.preference is not None:
        asking = promising_select(statement.select, statement.preference, asked, catalog, principal.may_read)
        _readable(asking.objects.values(), principal)
    return asking


def _asked_once(ask: Callable[[Catalog], Asking]) -> Callable[[Catalog], Asking]:
    """The function, which does not bind its statement again as long as the catalog is the same."""
    last: list[tuple[Catalog, Asking]] = []

    def asked(catalog: Catalog) -> Asking:
        if not last or last[0][0] is not catalog:
            last[:] = [(catalog, ask(catalog))]
        return last[0][1]

    return asked


def _reading(asked: Asking, ready: Ready, catalog: Catalog) -> Reading:
    """What a statement reads, with the values that it wants."""
    wanted = equal_values(asked) if isinstance(asked, OneTimeQuery) else {}
    sought = sought_values(asked) if isinstance(asked, OneTimeQuery) and catalog.indexes else {}
    return Reading(ready, _read_separately(asked), wanted, sought)


def _read_separately(asked: Asking) -> frozenset[str]:
    return asked.read_separately if isinstance(asked, PromisingSelect) else frozenset()


def _readable(names: Iterable[str], principal: Principal) -> list[str]:
    """The names. Raises Forbidden if the principal may not read one of them. A query gets no rows of other names."""
    checked = list(names)
    for name in checked:
        principal.check_read(name)
    return checked


def _partitions_joined_with_tables(catalog: Catalog) -> Iterator[Partition]:
    """The topic partitions that some query reads together with a table."""
    tables = {log.id for table in catalog.tables() for log in table.source.versions}
    streams = {source.id: source for source in catalog.source_versions()}
    for query in catalog.running():
        read_streams = [streams[id] for id in query.reads if id in streams]
        if tables.intersection(query.reads):
            yield from ((source.topic, partition) for source in read_streams for partition in range(source.partitions))


class _HeartbeatPace:
    """Decides when to send heartbeats: at once when the logs that are read together with tables have grown, else after
    pauses that double, up to a minute."""

    def __init__(self) -> None:
        self._ends: dict[Partition, int] | None = None
        self._pause_s = 0.0
        self._next = 0.0

    def due(self, ends: dict[Partition, int]) -> bool:
        """Whether to send heartbeats now; the logs end at `ends`."""
        if ends != self._ends:
            self._ends, self._pause_s, self._next = ends, 0.5, 0.0
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True
