"""The catalog of a copy of a cluster, which reads the same sources and writes topics of its own. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from dsms.coordinator.catalog.catalog_records import META, OBJECT, objects_in
from dsms.coordinator.catalog.system_objects import is_system
from dsms.model.catalog import Catalog
from dsms.model.objects import Former, Object, Query, Source, Table


@dataclass(frozen=True)
class Naming:
    """The names of topics in a copy. `sources` maps the topics of sources and tables that have another name in the copy
    to that name. The names of result topics and dead-letter topics begin with `prefix`. `ids` are the topic ids of the
    copy's source topics, by name.

    >>> Naming({"bids": "bids-mirror"}, "test.").result("dsms.Hot")
    'test.dsms.Hot'
    """

    sources: Mapping[str, str]
    prefix: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)

    def source(self, topic: str) -> str:
        """The topic of a source or of a table."""
        return self.sources.get(topic, topic)

    def result(self, topic: str) -> str:
        """The topic of a result, or of dead letters."""
        return self.prefix + topic


def copied_log(entries: Mapping[bytes, bytes], naming: Naming) -> dict[bytes, bytes]:
    """The log of the copy's catalog: the objects with their ids and the topics of the copy, and the events of the
    schema registry. The system's objects are left out, since each cluster creates its own."""
    kept = {key: body for key, body in entries.items() if not key.startswith(OBJECT) and key != META}
    objects = {name: copied(item, naming) for name, item in objects_in(entries).items() if not is_system(item)}
    return {**kept, **{OBJECT + name.encode(): msgspec.json.encode(item) for name, item in objects.items()}}


def catalog_in(entries: Mapping[bytes, bytes]) -> Catalog:
    """The objects in a log as a catalog, without its version and ids."""
    return Catalog(objects=objects_in(entries))


def copied(item: Object, naming: Naming) -> Object:
    """An object with the topics of the copy."""
    if isinstance(item, Source):
        if item.earlier is not None:
            item = msgspec.structs.replace(item, earlier=copied(item.earlier, naming))
        own_topic = naming.result(item.dead_letter_topic) if naming.prefix else item.own_dead_letter_topic
        if item.late_of is not None and naming.prefix:  # it reads the copy's own dead letters
            own = naming.result(item.topic)
            return msgspec.structs.replace(
                item, topic=own, start={}, own_dead_letter_topic=own_topic, topic_id=naming.ids.get(own)
            )
        topic = naming.source(item.topic)
        ids = naming.ids.get(topic)
        return msgspec.structs.replace(item, topic=topic, own_dead_letter_topic=own_topic, topic_id=ids, marked_by=None)
    if isinstance(item, Table):
        return msgspec.structs.replace(item, source=copied(item.source, naming))
    if not isinstance(item, Query):
        return item
    former = None if item.former is None else _former(item.former, naming)
    over = tuple(_former(each, naming) for each in item.over)
    following = item.next_over and tuple(_former(each, naming) for each in item.next_over)
    return msgspec.structs.replace(
        item,
        topic=naming.result(item.topic),
        topic_id=None,
        marked_by=None,
        former=former,
        over=over,
        next_over=following,
    )


def _former(former: Former, naming: Naming) -> Former:
    objects = tuple(copied(item, naming) for item in former.objects)
    return msgspec.structs.replace(former, objects=objects, over=tuple(_former(each, naming) for each in former.over))
