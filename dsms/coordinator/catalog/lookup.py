"""Looks up the objects that clients ask for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from dsms.coordinator.catalog.system_objects import is_system
from dsms.model.catalog import Catalog, WrongName
from dsms.model.names import PUBLIC, bare_name
from dsms.model.no_final_instant import NoFinalInstant
from dsms.model.objects import Object, Query, Source, Stream, Table, kind_of, number_of
from dsms.model.principal import Principal
from dsms.model.topic_rules import check_published
from dsms.registration.object_columns import schema_and_keys, why_columns_unknown
from operators.core.errors import DsmsError, UserError

#: A JSON object as the HTTP interface serves it.
Document = dict[str, Any]


class UnknownName(UserError):
    """No object has this name; the message lists the names that exist.

    >>> str(UnknownName("stream", "x", ["b", "a"]))
    'stream "x" not found; have: a, b'
    """

    def __init__(self, kind: str, name: str, choices: Iterable[str] = ()) -> None:
        self._choices = tuple(choices)
        names = ", ".join(sorted(self._choices))
        super().__init__(f'{kind} "{name}" not found', hint=f"have: {names}" if names else "there is none yet")
        self.kind = kind
        self.name = name

    def with_readable_names(self, may_read: Callable[[str], bool]) -> UnknownName:
        """The same error with only the names that the caller may read."""
        return UnknownName(self.kind, self.name, filter(may_read, self._choices))


def error_for(principal: Principal, error: DsmsError) -> DsmsError:
    """The error as the principal may see it: it has only names that the principal may read."""
    if isinstance(error, WrongName | UnknownName | NoFinalInstant):
        return error.with_readable_names(principal.may_read)
    return error


def object_named(catalog: Catalog, name: str) -> Object:
    """The object of this name. Raises UnknownName if it does not exist."""
    match = catalog.get(name)
    if match is None:
        raise UnknownName("object", name, (item.name for item in catalog.objects.values()))
    return match


def source_written_by(item: Object, catalog: Catalog, principal: Principal) -> Source:
    """The object as a source whose topic the principal may write. Raises UserError for another kind of object and for a
    source of the system, Forbidden if the principal may not write its topic."""
    if not isinstance(item, Source):
        hint = "records are published to sources only; write rows of a table with INSERT"
        raise UserError(f'"{item.name}" is a {kind_of(item)}, not a source', hint=hint)
    if is_system(item):
        raise UserError(f'only the system writes to "{item.name}"')
    check_published(item.topic, catalog, principal)
    return item


class ReadableObject(NamedTuple):
    """An object whose rows can be read: its name, number, columns and kind. A table, view or query also has the columns
    of its key, if there is one. A table has the texts of its defaults by column and of its checks by name; a view or
    query has the text of its SELECT."""

    name: str
    number: int
    schema: pa.Schema
    kind: str
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, str] = MappingProxyType({})
    checks: Mapping[str, str] = MappingProxyType({})
    definition: str | None = None
    #: The comments on it ("") and on its columns, by their names.
    comments: Mapping[str, str] = MappingProxyType({})
    #: The schema to which it belongs.
    schema_name: str = PUBLIC

    @property
    def relation_name(self) -> str:
        """Its name inside its schema."""
        return self.name if self.schema_name == PUBLIC else bare_name(self.name)


class ReadableObjects(list[ReadableObject]):
    """The objects that a caller may read, with the `schemas` in which it may read objects."""

    schemas: tuple[str, ...] = (PUBLIC,)


def readable_objects(catalog: Catalog, principal: Principal) -> ReadableObjects:
    """The streams, views, queries and tables that the principal may read, in the order of their creation. Objects that
    this version of dsms no longer understands are left out."""
    items: list[Stream | Table | Query] = [*catalog.streams(), *catalog.tables(), *catalog.running()]
    known = (item for item in items if principal.may_read(item.name) and not why_columns_unknown(item, catalog))
    readable = sorted(known, key=lambda item: number_of(item.id))
    objects = ReadableObjects(_readable(item, catalog) for item in readable)
    used = {item.schema_name for item in objects}
    objects.schemas = (PUBLIC, *(name for name in catalog.schemas if name in used or principal.may_read(f"{name}.*")))
    return objects


def _readable(item: Stream | Table | Query, catalog: Catalog) -> ReadableObject:
    schema, keys = schema_and_keys(item, catalog)
    found = ReadableObject(item.name, number_of(item.id), schema, kind_of(item))
    found = found._replace(comments=catalog.comments_on(item.name), schema_name=catalog.schema_of(item.name))
    match item:
        case Table():
            keys = () if item.is_bag else item.keys
            return found._replace(keys=keys, defaults=item.defaults, checks=item.checks)
        case Query():
            visible = set(keys) <= set(schema.names)
            return found._replace(keys=keys if visible else (), definition=item.select)
        case _:
            return found
