"""What the interface offers beside statements: feeds of results, publishing, and reading one's own writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from connectors.kafka.config import KafkaSettings
from connectors.kafka.dead_letters import last_dead_letters
from connectors.kafka.names import dead_letter_topic
from connectors.kafka.registry import register_schema
from connectors.redis.cluster_state import ClusterState
from dsms.coordinator.http.service import Document, known
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.coverage import Asked, Cover, Coverage, SharedStandings
from dsms.coordinator.results.documents import Followed, followed
from dsms.coordinator.results.feed import Feeds
from dsms.coordinator.results.log import KafkaResultLog
from dsms.coordinator.results.positions import parse_records
from dsms.coordinator.results.publishing import Inlet, Published
from dsms.coordinator.results.writer_schemas import writer_schema
from dsms.coordinator.statements.idempotency import AnswerStore
from dsms.coordinator.statements.system_objects import is_system
from dsms.coordinator.watcher.living_executors import living
from dsms.model import properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, kind_of
from dsms.runtime.stages.record_reading import WriterSchema
from dsms.sql.binder.bind import plan_of
from operators.core.errors import UserError


@dataclass(frozen=True)
class Surroundings:
    """What the access to results is made from; `catalog` is always the present one."""

    kafka: KafkaSettings
    cluster: ClusterState
    catalog: Callable[[], Catalog]
    registry: SchemaRegistry
    registry_url: str | None
    answers: AnswerStore


class ResultAccess:
    """Feeds, publishing and coverage over one catalog. Its calls may block, but for those of `feeds`."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        log = KafkaResultLog(around.kafka)
        self._admin = around.kafka.admin()
        self.answers = around.answers
        self.feeds = Feeds(log, self._now)
        self._inlet = Inlet(around.kafka, self._schema_id)
        self._coverage = Coverage(log, SharedStandings(lambda: living(around.cluster)), self.letters, self._writer)

    def result(self, name: str) -> Followed:
        """How to follow a view, a query or a table."""
        return followed(self._known(name), self._around.catalog())

    def publish(self, name: str, body: bytes, key: list[str], advance: int | None) -> Published:
        """Sends the records of a body to a source."""
        found = self._known(name)
        if not isinstance(found, Source):
            hint = "publish to a source; rows of tables come by INSERT"
            raise UserError(f'"{found.name}" is a {kind_of(found)}', hint=hint)
        if is_system(found):
            raise UserError(f'only the system writes to "{found.name}"')
        return self._inlet.publish(found, body, key, advance)

    def asked(self, name: str, token: str) -> Asked | None:
        """Whether a result covers what a token stands for, as a question; None while that is not all committed."""
        query, wanted = self._known(name), parse_records(token)
        if not isinstance(query, Query) or query.periodic is not None:
            raise UserError(f'"{query.name}" is a {kind_of(query)}', hint="want a view or a query")
        read = properties.sources(plan_of(query.name, self._around.catalog()))
        source = next((one for one in read if one.id == wanted.source), None)
        if source is None:
            raise UserError(
                f'"{query.name}" does not read the source of the token',
                hint=f"it reads: {', '.join(one.name for one in read)}",
            )
        return self._coverage.asked(query, source, wanted)

    def look(self, asked: Asked) -> Cover:
        """How far the result is now."""
        return self._coverage.look(asked)

    def _known(self, name: str) -> Object:
        return known(self._around.catalog(), name)

    def _now(self, result: Followed) -> str | None:
        """The id under which a result is known: that of the query which took the place of its own and went on writing
        its topic."""
        found = self._around.catalog().get(result.name)
        replaced = isinstance(found, Query) and found.since is not None and found.topic == result.topic
        return found.id if found is not None and (found.id == result.id or replaced) else None

    def letters(self, source: Source, limit: int) -> list[Document]:
        """The latest records that a source refused."""
        return last_dead_letters(self._around.kafka, self._admin, dead_letter_topic(source.name), limit)

    def _writer(self, source: Source) -> WriterSchema:
        return writer_schema(source, self._around.registry, self._around.registry_url)

    def _schema_id(self, source: Source, part: str, schema: dict[str, Any]) -> int:
        subject, url = f"{source.topic}-{part}", source.registry or self._around.registry_url
        if url:
            return register_schema(url, subject, schema)
        return self._around.registry.register(subject, msgspec.json.encode(schema).decode())
