"""The records of the catalog's topic: the version of the catalog, its objects, and events of the schema registry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from connectors.kafka.logs.internal_log import Entry
from dsms.coordinator.registry.state import Event, read_event
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.objects import Object
from dsms.model.sinks import KeptSink
from operators.core.decoding import Malformed, Natural, decoded, natural_of, text_of

META = b"catalog"
OBJECT, _REGISTRY = b"object/", b"registry/"
#: Ids are a letter and a number, such as "o12"; ids of system objects begin with "d".
_ID = re.compile(r"[a-z]\d{1,15}")


class Meta(msgspec.Struct, frozen=True):
    """The version of the catalog, how many ids were given out, the term of the coordinator that wrote it, the topics
    of dropped objects that are not deleted yet, the comments and indexes on objects by name, the sinks, and the
    comments on schemas by name."""

    version: Natural = 0
    ids: Natural = 0
    term: Natural = 0
    dropped_topics: tuple[DroppedTopic, ...] = ()
    comments: dict[str, dict[str, str]] = {}
    sinks: tuple[KeptSink, ...] = ()
    indexes: dict[str, dict[str, tuple[str, ...]]] = {}
    schemas: dict[str, str] = {}


#: The content of a record: the catalog as a whole, an object, or a numbered event of the registry.
CatalogItem = Meta | Object | tuple[int, Event]


def object_key(name: str) -> bytes:
    """The key of the object with this lower-case name."""
    return OBJECT + name.encode()


def event_key(number: int) -> bytes:
    """The key of an event of the registry."""
    return _REGISTRY + str(number).encode()


def object_name(key: bytes) -> str | None:
    """The name in the key of an object; None for other keys."""
    name = key.removeprefix(OBJECT)
    return name.decode(errors="replace") if key.startswith(OBJECT) and name else None


def read_part(entry: Entry) -> tuple[bytes, CatalogItem | None, bytes | None]:
    """The key of a record, its content (None: the object was dropped), and its value. Raises Malformed if invalid.

    >>> read_part(Entry(b"catalog", b'{"version": 3, "ids": 2, "term": 1}', 0, 0))[1]
    Meta(version=3, ids=2, term=1, dropped_topics=(), comments={}, sinks=(), indexes={}, schemas={})
    """
    return entry.key, _part(entry.key, entry.value), entry.value


def _part(key: bytes, value: bytes | None) -> CatalogItem | None:
    if key.startswith(OBJECT):
        return None if value is None else _object(text_of(key.removeprefix(OBJECT)), value)
    if value is None:
        raise Malformed("deleted, but only objects can be deleted")
    if key == META:
        meta: Meta = decoded(value, Meta)
        return meta
    if key.startswith(_REGISTRY):
        return natural_of(text_of(key.removeprefix(_REGISTRY))), read_event(value)
    raise Malformed("the key belongs to no part of the catalog")


def _object(name: str, value: bytes) -> Object:
    item: Object = decoded(value, Object)
    if item.name.lower() != name:
        raise Malformed("the key is not the name of the object")
    if not _ID.fullmatch(item.id):
        raise Malformed("the id of the object is not a letter and a number")
    return item


def in_order(objects: Iterable[Object]) -> dict[str, Object]:
    """Objects by name, in the order of their creation: ids are a letter and a number."""
    return {item.name.lower(): item for item in sorted(objects, key=lambda item: (item.id[0], int(item.id[1:])))}


def objects_in(entries: Mapping[bytes, bytes]) -> dict[str, Object]:
    """The objects in the entries of the log, by name, in the order of their creation. Raises Malformed if an entry is
    invalid."""
    parts = (_part(key, body) for key, body in entries.items() if key.startswith(OBJECT))
    return in_order(part for part in parts if isinstance(part, Object))


def catalog_of(meta: Meta, objects: dict[str, Object]) -> Catalog:
    """The catalog with these objects, and with what `meta` says of it."""
    dropped = {each.topic: each for each in meta.dropped_topics}
    comments = {name: texts for name, texts in meta.comments.items() if name in objects}
    sinks = {sink.name.lower(): sink for sink in meta.sinks if sink.result in objects}
    indexes = {name: each for name, each in meta.indexes.items() if name in objects}
    more = {"comments": comments, "sinks": sinks, "indexes": indexes, "schemas": meta.schemas}
    return msgspec.structs.replace(Catalog(meta.version, meta.ids, objects, dropped_topics=dropped), **more)


def meta_of(catalog: Catalog, term: int) -> Meta:
    """What the log says of a catalog that a coordinator of this term writes."""
    dropped, sinks = tuple(catalog.dropped_topics.values()), tuple(catalog.sinks.values())
    return Meta(catalog.version, catalog.ids, term, dropped, catalog.comments, sinks, catalog.indexes, catalog.schemas)


def first_entry(entries: Mapping[bytes, bytes]) -> bytes:
    """The entry under `META` of a new log that begins with the entries of another log. The new log deletes no topics of
    the other one, and has no sinks: two clusters must not write to one target. Raises Malformed if the other log's
    entry is invalid or missing."""
    last = _part(META, entries.get(META))
    assert isinstance(last, Meta)
    first = Meta(last.version, last.ids, comments=last.comments, indexes=last.indexes, schemas=last.schemas)
    return msgspec.json.encode(first)
