"""The schemas that the records of sources were written with."""

from __future__ import annotations

import json
from functools import lru_cache

from connectors.kafka.registry import schema_lookup
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry
from dsms.model.objects import Source
from dsms.runtime.stages.record_reading import WriterSchema


def writer_schema(source: Source, registry: SchemaRegistry, registry_url: str | None) -> WriterSchema:
    """How to find a schema by its id, LookupError for an unknown one: in the source's registry, else in that of the
    cluster, else in our own."""
    url = source.registry or registry_url
    return schema_lookup(url) if url else _own(registry)


@lru_cache(maxsize=4)
def _own(registry: SchemaRegistry) -> WriterSchema:
    def lookup(schema_id: int) -> dict[str, object]:
        try:
            found: dict[str, object] = json.loads(registry.by_id(schema_id))
        except RegistryError as error:
            raise LookupError(f"unknown schema id {schema_id}") from error
        return found

    return lookup
