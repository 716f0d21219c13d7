"""The calls of the HTTP interface that are not statements: feeds of results, publishing, and waiting until a result
covers published records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.dead_letters import ShownLetters, last_dead_letters
from connectors.kafka.schema_registry.registry import register_schema
from dsms.coordinator.catalog.lookup import Document, object_named, source_written_by
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.change_documents import Followed, followed
from dsms.coordinator.results.coverage import Coverage, CoverageQuestion, CoverageReport, SharedLaneReports
from dsms.coordinator.results.feed import Feeds, FeedSettings
from dsms.coordinator.results.positions import parse_records
from dsms.coordinator.results.publishing import Published, RecordPublisher
from dsms.coordinator.results.replays import marked_topic
from dsms.coordinator.results.result_log import KafkaResultLog
from dsms.coordinator.results.token_sources import sources_of_token
from dsms.coordinator.results.writer_schemas import writer_schema
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Source, kind_of
from dsms.model.principal import Principal
from dsms.placement.leases import ExecutorStatus
from dsms.runtime.stages.record_reading import WriterSchema
from operators.core.errors import UserError


@dataclass(frozen=True)
class Dependencies:
    """The dependencies of `ResultAccess`: `executors` returns the last reports of the living executors, by name, and
    `catalog` the current catalog."""

    kafka: KafkaSettings
    executors: Callable[[], Mapping[str, ExecutorStatus]]
    catalog: Callable[[], Catalog]
    registry: SchemaRegistry
    registry_url: str | None
    alarms: Alarms


class ResultAccess:
    """Feeds, publishing and coverage over one catalog. All calls may block, except those of `feeds`."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        log = KafkaResultLog(dependencies.kafka)
        self._admin = dependencies.kafka.admin()
        self.feeds = Feeds(log, self._current_id, alarms=dependencies.alarms)
        self._publisher = RecordPublisher(dependencies.kafka, self._schema_id)
        lanes = SharedLaneReports(dependencies.executors)
        self._coverage = Coverage(log, lanes, partial(self.dead_letters, alone=True), self._writer)

    def more_feeds(self, settings: FeedSettings) -> Feeds:
        """Feeds for another event loop than that of `feeds`. The caller has to close them."""
        return Feeds(KafkaResultLog(self._dependencies.kafka), self._current_id, settings, self._dependencies.alarms)

    def result(self, name: str) -> Followed:
        """How to follow a view, a query or a table."""
        catalog = self._dependencies.catalog()
        return followed(object_named(catalog, name), catalog)

    def publish(self, name: str, body: bytes, key: list[str], advance: int | None, principal: Principal) -> Published:
        """Sends the records of a body to a source whose topic `principal` may write."""
        catalog = self._dependencies.catalog()
        source = source_written_by(object_named(catalog, name), catalog, principal)
        return self._publisher.publish(source, body, key, advance)

    def question(self, name: str, token: str) -> CoverageQuestion | None:
        """The question whether a result covers the records of a token; None while not all of them are committed."""
        catalog = self._dependencies.catalog()
        query, wanted = object_named(catalog, name), parse_records(token)
        if not isinstance(query, Query) or query.periodic is not None:
            raise UserError(f'"{query.name}" is a {kind_of(query)}, not a view or a query')
        return self._coverage.question(query, sources_of_token(query, wanted.source, catalog), wanted)

    def cover(self, question: CoverageQuestion) -> CoverageReport:
        """How far the result has progressed."""
        return self._coverage.cover(question)

    def _current_id(self, result: Followed) -> str | None:
        """The current id of a result: its own, or the id of the query that replaced its query and continues its topic;
        None if it was dropped."""
        current = self._dependencies.catalog().get(result.name)
        replaced = isinstance(current, Query) and current.since is not None and current.topic == result.topic
        return current.id if current is not None and (current.id == result.id or replaced) else None

    def dead_letters(self, source: Source, limit: int, *, alone: bool = False) -> list[Document]:
        """The latest dead letters of a source. Each record is shown once, although all versions of the source may have
        refused it. With `alone`, only those that this version refused."""
        dependencies = self._dependencies
        versions = frozenset([source.id] if alone else source.ids)
        shown = ShownLetters(source.dead_letter_topic, marked_topic(source), versions, alone)
        return last_dead_letters(dependencies.kafka, self._admin, shown, limit, dependencies.alarms)

    def _writer(self, source: Source) -> WriterSchema:
        return writer_schema(source, self._dependencies.registry, self._dependencies.registry_url)

    def _schema_id(self, source: Source, part: str, schema: dict[str, Any]) -> int:
        subject, url = f"{source.topic}-{part}", source.registry or self._dependencies.registry_url
        if url:
            return register_schema(url, subject, schema, ours=source.registry is None)
        return self._dependencies.registry.register(subject, msgspec.json.encode(schema).decode())
