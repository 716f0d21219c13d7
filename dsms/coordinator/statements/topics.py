"""Creates the topics of sources and results, and registers the schemas of their records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa

from connectors.formats.record_formats import FORMATS, MakeSchema
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.retention import REMEDY, retention_of, too_short
from connectors.kafka.client.topics import (
    COMPACTED_RESULT,
    KEPT,
    SOURCE,
    admit_large_records,
    earliest,
    ensure_topic,
    id_of_existing,
    latest,
    partitions_of,
)
from connectors.kafka.schema_registry.registry import latest_schema, register_schema
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.model import logical, properties
from dsms.model.dead_letters import dead_letter_topic
from dsms.model.objects import Query, Source
from dsms.model.schema import visible
from operators.core.delta import MAX_PARTITIONS
from operators.core.errors import ExternalError, UserError


class Topics:
    """Creates topics in Kafka, and registers schemas in the coordinator's own schema registry or an external one."""

    def __init__(self, kafka: KafkaSettings, registry: SchemaRegistry, registry_url: str | None) -> None:
        self._admin, self._registry, self._registry_url = kafka.admin(), registry, registry_url

    def make_source_topic(self, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition of a source topic. Creates the topic if it does not exist and `partitions`
        is given."""
        existing = partitions_of(self._admin, topic)
        if not existing and partitions is None:
            raise UserError(
                f'topic "{topic}" does not exist',
                hint=f"create it, or write FROM {topic} PARTITIONS 4 to have it created",
            )
        if not existing:
            ensure_topic(self._admin, topic, partitions or 1, SOURCE)
            existing = list(range(partitions or 1))
        if len(existing) > MAX_PARTITIONS:
            raise UserError(
                f'topic "{topic}" has {len(existing)} partitions', hint=f"at most {MAX_PARTITIONS} can be read"
            )
        first = earliest(self._admin, [(topic, partition) for partition in existing])
        return {partition: first.get((topic, partition), 0) for partition in existing}

    def warnings(self, topic: str) -> tuple[str, ...]:
        """Warnings about records that a source over an existing topic may lose."""
        try:
            problem = too_short(retention_of(self._admin, topic))
        except ExternalError as error:
            return (f'cannot check whether topic "{topic}" keeps its records long enough: {error}',)
        if problem is None:
            return ()
        return (
            f'the retention of topic "{topic}" is too short: {problem}, so records with older instants may be '
            f"deleted before they are read, and lost state cannot be rebuilt from them; {REMEDY}",
        )

    def topic_id(self, topic: str) -> str | None:
        """Kafka's id of an existing topic; None if the brokers give no ids."""
        return id_of_existing(self._admin, topic)

    def make_result_topic(self, query: Query, node: logical.Node) -> Query:
        """Creates the result topic, or uses an existing empty one, and registers the schemas of its records."""
        keyed = bool(properties.keys(node))
        existing = partitions_of(self._admin, query.topic)
        ends = latest(self._admin, [(query.topic, partition) for partition in existing])
        starts = earliest(self._admin, [(query.topic, partition) for partition in existing])
        if any(ends[partition] > starts[partition] for partition in ends):
            raise UserError(
                f'topic "{query.topic}" already has records',
                hint="choose another one: CREATE … WITH (topic = 'name') AS …",
            )
        if existing:
            admit_large_records(self._admin, query.topic)
            query = msgspec.structs.replace(query, partitions=len(existing))
        else:
            # a complete result can be read as of any earlier instant, so its topic is not compacted
            compacted = keyed and query.output != "complete"
            ensure_topic(self._admin, query.topic, query.partitions, COMPACTED_RESULT if compacted else KEPT)
        query = msgspec.structs.replace(query, topic_id=self.topic_id(query.topic))
        make_schema = FORMATS[query.format].schema
        return self._with_schemas(query, node, make_schema) if make_schema else query

    def _with_schemas(self, query: Query, node: logical.Node, make_schema: MakeSchema) -> Query:
        schema, keys = visible(node), properties.keys(node)
        # the members of a family have one schema, so that their records are encoded together
        record = f"family_{query.family}" if query.grouped else query.name
        ids = {"value_schema_id": self._register_for(f"{query.topic}-value", schema, f"{record}_value", make_schema)}
        if keys:
            key_schema = pa.schema([schema.field(key) for key in keys])
            ids["key_schema_id"] = self._register_for(f"{query.topic}-key", key_schema, f"{record}_key", make_schema)
        return msgspec.structs.replace(query, **ids)

    def _register_for(self, subject: str, schema: pa.Schema, record: str, make_schema: MakeSchema) -> int:
        """Registers the schema of results, and returns its id. If the subject has a schema already, the new one keeps
        the name of its record, because Avro takes another name for incompatible. The default name `record` may differ:
        it depends on whether the query is in a family."""
        latest = self._latest(subject) or {}
        parts = [latest[part] for part in ("namespace", "name") if latest.get(part)]
        return self._register(subject, make_schema(schema, ".".join(parts) or record))

    def _latest(self, subject: str) -> dict[str, Any] | None:
        """The newest schema of a subject, None if it has no schema."""
        if self._registry_url is not None:
            latest = latest_schema(self._registry_url, subject)
            return latest and latest[1]
        if subject not in self._registry.subjects():
            return None
        schema = json.loads(self._registry.version(subject, "latest").schema)
        return schema if isinstance(schema, dict) else None

    def _register(self, subject: str, schema: dict[str, Any]) -> int:
        """The id of a schema, registered in the external registry if one is configured, else in the coordinator's."""
        if self._registry_url is not None:
            return register_schema(self._registry_url, subject, schema)
        return self._registry.register(subject, msgspec.json.encode(schema).decode())

    def offer_schema(self, source: Source) -> None:
        """Registers the schema of an Avro source under its topic for producers, unless they have registered theirs."""
        subject = f"{source.topic}-value"
        make_schema = FORMATS[source.format].schema
        ours = source.registry is None and self._registry_url is None
        if make_schema and ours and subject not in self._registry.subjects():
            self._register(subject, make_schema(source.record, f"{source.name}_value"))

    def make_dead_letter_topic(self, source: str) -> None:
        """Creates the topic of a source's dead letters, which are larger than the records that they quote."""
        topic = dead_letter_topic(source)
        ensure_topic(self._admin, topic, 1, KEPT)
        admit_large_records(self._admin, topic)
