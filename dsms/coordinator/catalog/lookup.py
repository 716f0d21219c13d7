"""Objects by name, for what clients ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from dsms.coordinator.catalog.system_objects import is_system
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Stream, Table, kind_of, number_of
from dsms.model.principal import Principal
from dsms.model.topic_rules import check_published
from dsms.registration.object_columns import schema_and_keys, why_unknown
from operators.core.errors import UserError

#: A JSON object as the interface serves it.
Document = dict[str, Any]


class UnknownName(UserError):
    """No object has this name; the message lists those there are.

    >>> str(UnknownName("stream", "x", ["b", "a"]))
    'stream "x" not found; have: a, b'
    """

    def __init__(self, kind: str, name: str, choices: Iterable[str] = ()) -> None:
        self._choices = tuple(choices)
        names = ", ".join(sorted(self._choices))
        super().__init__(f'{kind} "{name}" not found', hint=f"have: {names}" if names else "there is none yet")
        self.kind = kind
        self.name = name

    def among(self, may_read: Callable[[str], bool]) -> UnknownName:
        """The same error for somebody who may not see all names."""
        return UnknownName(self.kind, self.name, filter(may_read, self._choices))


def object_named(catalog: Catalog, name: str) -> Object:
    """The object of a name, or `UnknownName`."""
    match = catalog.get(name)
    if match is None:
        raise UnknownName("object", name, (item.name for item in catalog.objects.values()))
    return match


def source_written_by(item: Object, catalog: Catalog, principal: Principal) -> Source:
    """The object as a source to whose topic somebody writes. UserError for others and for sources over topics of the
    system, Forbidden where he may not."""
    if not isinstance(item, Source):
        hint = "sources are written so; write the rows of a table by INSERT"
        raise UserError(f'"{item.name}" is a {kind_of(item)}, not a source', hint=hint)
    if is_system(item):
        raise UserError(f'only the system writes to "{item.name}"')
    check_published(item.topic, catalog, principal)
    return item


class ReadableObject(NamedTuple):
    """An object whose rows can be read: its name, its number, its columns, its kind, and the text of the defaults of
    columns."""

    name: str
    number: int
    schema: pa.Schema
    kind: str
    defaults: Mapping[str, str] = MappingProxyType({})


def readable_objects(catalog: Catalog, principal: Principal) -> list[ReadableObject]:
    """The streams, views, queries and tables that somebody may read, in the order in which they were made. Those that
    this version of dsms does not understand any more are left out."""
    items: list[Stream | Table | Query] = [*catalog.streams(), *catalog.tables(), *catalog.running()]
    known = (item for item in items if principal.may_read(item.name) and not why_unknown(item, catalog))
    readable = sorted(known, key=lambda item: number_of(item.id))
    return [
        ReadableObject(
            item.name,
            number_of(item.id),
            schema_and_keys(item, catalog)[0],
            kind_of(item),
            item.defaults if isinstance(item, Table) else {},
        )
        for item in readable
    ]
