"""The catalog's objects as JSON documents of the HTTP interface, with their columns, states and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from dsms.coordinator.catalog.lookup import Document, object_named
from dsms.coordinator.watcher.object_states import States
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Table, kind_of, shown_sql
from dsms.model.types import type_sql
from dsms.registration.object_columns import schema_and_keys, why_columns_unknown
from operators.core.masking import masked_urls


@dataclass(frozen=True)
class ObjectDocuments:
    """Reads the current catalog, without waiting for statements. `states` reads the cluster's state once."""

    catalog: Callable[[], Catalog]
    states: Callable[[], States]

    def sources(self) -> list[Document]:
        """All sources."""
        return self._documents(self.catalog().sources())

    def streams(self) -> list[Document]:
        """All tagged streams, including views and tables."""
        catalog = self.catalog()
        views = [query for query in catalog.queries() if query.kind == "view"]
        return self._documents([*catalog.streams(), *catalog.tables(), *views])

    def queries(self) -> list[Document]:
        """All continuous queries, including views."""
        return self._documents(self.catalog().queries())

    def describe(self, name: str) -> Document:
        """One object. Raises UnknownName if it does not exist."""
        catalog = self.catalog()
        return _document(object_named(catalog, name), catalog, self.states())

    def _documents(self, objects: Iterable[Object]) -> list[Document]:
        catalog, states = self.catalog(), self.states()
        return [_document(item, catalog, states) for item in objects]


def _document(item: Object, catalog: Catalog, states: States) -> Document:
    why = why_columns_unknown(item, catalog)
    schema, keys = (pa.schema([]), ()) if why else schema_and_keys(item, catalog)
    columns = [{"name": field.name, "type": type_sql(field.type), "nullable": field.nullable} for field in schema]
    document: Document = {
        "name": item.name,
        "kind": kind_of(item),
        "sql": shown_sql(item),
        "id": item.id,
        "columns": columns,
        "key": list(keys),
        "state": states.of(item),
    }
    if why:
        document["error"] = why
    if isinstance(item, Table):
        document |= {"topic": item.topic, "format": "json", "partitions": item.source.partitions}
    if isinstance(item, Source | Query):
        document |= {"topic": item.topic, "format": item.format, "partitions": item.partitions}
    if isinstance(item, Source):
        document |= {
            "timestamp": item.timestamp,
            "tagged": item.tagged,
            "registry": item.registry and masked_urls(item.registry),
        }
    if isinstance(item, Query):
        document |= _query_fields(item, states)
    return document


def _query_fields(query: Query, states: States) -> Document:
    fields: Document = {
        "frontier": states.frontier(query),
        "start": query.start,
        "since": query.since,
        "weight": query.weight,
        "paused": query.paused,
        "fragment": query.fragment,
        "fragments": list(query.fragments),
    }
    if query.id in states.progress:
        fields["progress"] = states.progress[query.id].document()
    return fields
