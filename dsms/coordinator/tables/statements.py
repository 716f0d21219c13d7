"""Statements about tables, and what is asked once, on a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import structlog

from connectors.kafka.config import KafkaSettings
from connectors.kafka.topics import Partition, latest
from dsms.coordinator.results.relations import Relations
from dsms.coordinator.tables.loading import LoadPolicy
from dsms.coordinator.tables.table_logs import ClusterTables
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load, LoadDatabase, LoadFile
from dsms.tables.effect import Content, Effect, Key, counted, inserted
from dsms.tables.loading import batches_of, rows_of_file
from dsms.tables.one_time import answer, names_of
from dsms.tables.statements import Write, effect_of, names_read, table_of

log = structlog.get_logger()
_LONGEST_PAUSE_S = 60.0


class TableStatements:
    """INSERT, UPDATE, DELETE, loads and SELECT. The caller sees to it that there is one call at a time."""

    def __init__(self, kafka: KafkaSettings, cluster: str, loads: LoadPolicy) -> None:
        self._tables = ClusterTables(kafka, cluster)
        self._relations = Relations(kafka, cluster, self._tables)
        self._loads = loads
        self._admin = kafka.admin()
        self._reading_rates = _Pace()
        self._version = -1
        self._beside: set[Partition] = set()

    def run(self, statement: st.Select | Write | Load, catalog: Catalog) -> StatementResult:
        """What the statement does or answers; one that fails has done nothing."""
        if isinstance(statement, st.Select):
            return self._select(statement, catalog)
        table = table_of(statement.table, catalog)
        content = self._tables.content(table)
        if isinstance(statement, LoadFile | LoadDatabase):
            return self._load(table, batches_of(self._loads.checked(statement), table), catalog)
        relation = self._relations.now(names_read(statement, catalog), catalog)
        effect = effect_of(statement, catalog, relation, content)
        done = self._tables.write(table, catalog.tables(), [effect])
        return StatementResult(type(statement).__name__.upper(), counted(*done), name=table.name)

    def load(self, name: str, path: Path, form: str, catalog: Catalog) -> StatementResult:
        """Adds the rows of a file that was sent here."""
        table = table_of(st.Name(name), catalog)
        clause = st.Clause("format", (form,), st.Place())
        return self._load(table, rows_of_file(path, table, (clause,)), catalog)

    def relation(self, name: str, at: int | None, catalog: Catalog) -> tuple[int, list[str], list[tuple[object, ...]]]:
        """The instant, the columns and the rows of one object."""
        instant, rows = self._relations.rows(name, at, catalog)
        columns = [column.to_pylist() for column in rows.columns]
        return instant, rows.column_names, list(zip(*columns, strict=True))

    def forget(self, table: Table) -> None:
        """The table is gone."""
        self._tables.forget(table)

    def follow(self, catalog: Catalog) -> None:
        """Promises the time to the readers of tables, while what they read beside them goes on."""
        tables = catalog.tables()
        if catalog.version != self._version:
            self._beside = set(_beside_tables(catalog))
            waiting = bool(self._beside or self._tables.unopened(tables))
            self._reading_rates, self._version = _Pace(), catalog.version
        else:
            waiting = bool(self._beside)
        if tables and waiting and self._reading_rates.due(latest(self._admin, self._beside)):
            self._tables.promise(tables)

    def _select(self, statement: st.Select, catalog: Catalog) -> StatementResult:
        instant = self._relations.common_instant(names_of(statement.select, catalog), catalog)
        columns, rows = answer(statement.select, catalog, self._relations.at(instant, catalog))
        when = "" if instant is None else f" at instant {instant}"
        return StatementResult("SELECT", f"{len(rows)} row{'' if len(rows) == 1 else 's'}{when}", columns, rows)

    def _load(self, table: Table, batches: Iterator[pa.Table], catalog: Catalog) -> StatementResult:
        effects = _loaded(table, batches, self._tables.content(table))
        done = self._tables.write(table, catalog.tables(), effects)
        return StatementResult("LOAD", counted(*done), name=table.name)


def _loaded(table: Table, batches: Iterator[pa.Table], content: Content) -> Iterator[Effect]:
    """Each batch as new rows, with a word in the log of how far it has come."""
    seen: set[Key] = set()
    for batch in batches:
        yield inserted(table, batch, content, seen)
        log.info("loading", table=table.name, rows=len(seen))


def _beside_tables(catalog: Catalog) -> Iterator[Partition]:
    """The topic partitions that some query reads together with a table."""
    tables = {table.source.id for table in catalog.tables()}
    streams = {source.id: source for source in catalog.sources()}
    for query in catalog.running():
        others = [streams[read] for read in query.reads if read in streams]
        if tables.intersection(query.reads):
            yield from ((source.topic, partition) for source in others for partition in range(source.partitions))


class _Pace:
    """When to promise: at once when the logs beside have grown, else after pauses that double up to a minute."""

    def __init__(self) -> None:
        self._ends: dict[Partition, int] | None = None
        self._pause_s = 0.0
        self._next = 0.0

    def due(self, ends: dict[Partition, int]) -> bool:
        """Whether it is time, now that the logs end here."""
        if ends != self._ends:
            self._ends, self._pause_s, self._next = ends, 0.5, 0.0
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True
