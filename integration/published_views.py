"""Views whose epochs a test publishes itself, as an executor would, so that reading them needs no Spark."""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import OP_HEADER, PROGRESS, TS_HEADER, internal_topic
from connectors.kafka.client.topics import COMPACTED_RESULT, COMPACTED_SOON, KEPT, ensure_topic, topic_ids
from connectors.kafka.logs.internal_log import writer_headers
from connectors.kafka.records.column_writer import transactional_writer
from connectors.kafka.records.pieces import decided_ranges
from connectors.kafka.records.record_columns import Headers, Records
from dsms.coordinator.tables.load_policy import LoadPolicy
from dsms.coordinator.tables.table_statements import TableStatements
from dsms.coordinator.watcher.redis_documents import LeaderView
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.limits import Limits
from dsms.model.objects import Query
from dsms.model.principal import ANYBODY
from dsms.model.statement_result import EncodedRows
from dsms.runtime.epoch.progress_log import ResultProgress, result_key
from dsms.statements.registry import parse
from dsms.testing import LocalSession

#: A change: its instant, its operation (+, u or -), the key and the row; the row is None if it is deleted.
Change = tuple[int, str, dict[str, Any] | None, dict[str, Any] | None]


@dataclass
class PublishedViews:
    """The views of a catalog in which the session's cluster runs no executor; `publish` is one epoch."""

    kafka: str
    cluster: str
    catalog: Catalog
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        settings = KafkaSettings(self.kafka)
        self._progress = internal_topic(self.cluster, PROGRESS)
        self._admin = settings.admin()
        ensure_topic(self._admin, self._progress, 1, COMPACTED_SOON)
        self._writer = transactional_writer(settings, f"{self.cluster}.views")
        self._headers = writer_headers(self.cluster, "executor")

    def close(self) -> None:
        """Closes the writer."""
        self._writer.close()

    def publish(self, frontiers: dict[str, int], changes: dict[str, Sequence[Change]], partition: int = 0) -> None:
        """Publishes changes of views, and that they are final below their frontiers, in one transaction."""
        with self._writing:
            self._writer.begin()
            for name, each in changes.items():
                self._writer.write(self._records(self._view(name), each, partition))
            for name, frontier in frontiers.items():
                self._writer.write(self._progress_of(self._view(name), frontier))
            self._writer.commit()
            decided_ranges(self._admin, self._progress)  # readers see a commit a little later than its writer

    def _view(self, name: str) -> Query:
        found = self.catalog.find(name)
        assert isinstance(found, Query)
        return found

    def _records(self, view: Query, changes: Iterable[Change], partition: int) -> Records:
        listed = list(changes)
        headers: list[Headers] = [
            [(OP_HEADER, op.encode()), (TS_HEADER, str(at).encode()), *self._headers] for at, op, _, _ in listed
        ]
        keys, values = [_json(key) for _, _, key, _ in listed], [_json(row) for _, _, _, row in listed]
        return Records(view.topic, keys, values, headers, [partition] * len(listed))

    def _progress_of(self, view: Query, frontier: int) -> Records:
        partitions = range(view.partitions)
        values = [msgspec.json.encode(ResultProgress(view.id, frontier, 0)) for _ in partitions]
        keys = [result_key(view.topic, partition) for partition in partitions]
        return Records(self._progress, keys, values, [self._headers] * view.partitions)


def _json(document: dict[str, Any] | None) -> bytes | None:
    return None if document is None else json.dumps(document, separators=(",", ":")).encode()


@contextmanager
def published_views(kafka: str, cluster: str, sql: str) -> Iterator[PublishedViews]:
    """The views and tables of a script, with empty topics of their own."""
    session = LocalSession()
    session.execute(sql)
    catalog, admin = session.catalog, KafkaSettings(kafka).admin()
    for query in catalog.queries():
        topic = f"{cluster}.{query.name}"
        ensure_topic(admin, topic, query.partitions, KEPT if query.output == "complete" else COMPACTED_RESULT)
        catalog = catalog.with_changed(
            msgspec.structs.replace(
                query, topic=topic, topic_id=topic_ids(admin, [topic]).get(topic), marked_by=cluster
            )
        )
    for table in catalog.tables():
        topic = f"{cluster}.{table.name}"
        ensure_topic(admin, topic, table.source.partitions, KEPT)
        source = msgspec.structs.replace(table.source, topic=topic, marked_by=cluster)
        catalog = catalog.with_changed(msgspec.structs.replace(table, source=source))
    with closing(PublishedViews(kafka, cluster, catalog)) as views:
        yield views


@contextmanager
def reading(views: PublishedViews, limits: Limits | None = None) -> Iterator[TableStatements]:
    """The coordinator's reader of these views."""
    leader = LeaderView(views.cluster, lambda: views.catalog, lambda: True)
    alarms = Alarms()
    tables = TableStatements(KafkaSettings(views.kafka), leader, LoadPolicy(), limits or Limits(), alarms)
    with closing(tables):
        yield tables


def changed(tables: TableStatements, sql: str) -> None:
    """Runs a statement that changes a table."""
    (statement,) = parse(sql)
    assert isinstance(statement, st.Insert | st.Update | st.Delete)
    tables.write(statement, ANYBODY.principal)


def selected(tables: TableStatements, sql: str) -> list[list[Any]]:
    """The rows that a SELECT returns."""
    (statement,) = parse(sql)
    assert isinstance(statement, st.Select)
    result = tables.select(statement, ANYBODY.principal, threading.Event())
    assert isinstance(result.rows, EncodedRows)
    rows: list[list[Any]] = json.loads(result.rows.json)
    return rows
