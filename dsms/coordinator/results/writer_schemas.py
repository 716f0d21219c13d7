"""Finds the schemas with which the records of sources were written."""

from __future__ import annotations

import json
from functools import lru_cache

from connectors.formats.protobuf_schema import is_protobuf, with_imports
from connectors.kafka.schema_registry.registry import schema_lookup
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry
from dsms.model.objects import Source
from dsms.runtime.stages.record_reading import WriterSchema


def writer_schema(source: Source, registry: SchemaRegistry, registry_url: str | None) -> WriterSchema:
    """A function that finds schemas by id, in the registry of the source, else in the external registry of the cluster,
    else in the coordinator's own. It raises LookupError for an unknown id."""
    url = source.registry or registry_url
    return schema_lookup(url, ours=source.registry is None) if url else _own_lookup(registry)


@lru_cache(maxsize=4)
def _own_lookup(registry: SchemaRegistry) -> WriterSchema:
    def lookup(schema_id: int) -> dict[str, object]:
        try:
            schema: dict[str, object] = json.loads(registry.by_id(schema_id))
            return with_imports(schema, registry.document) if is_protobuf(schema) else schema
        except RegistryError as error:
            raise LookupError(f"unknown schema id {schema_id}") from error

    return lookup
