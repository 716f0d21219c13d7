"""Partitions that were added to the topic of a source: pure decisions over the catalog.

A new partition is read from its beginning, and counts from an instant that all readers of the source have passed or not
yet published: below it, records of the partition are late. Every replay, and every query that is made later, finds the
same instant in the catalog, so its results are the same. While the instant is found out, nothing of the source is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import Former, Object, Query, Source
from operators.core.delta import BEGINNING, MAX_PARTITIONS


def grown(sources: Iterable[Source], counts: Mapping[str, int], ids: Mapping[str, str]) -> list[Source]:
    """The sources whose topics have more partitions than are read, and are still those that were registered.

    >>> source = Source(name="s", id="o1", sql="", columns=(), topic="t", topic_id="a")
    >>> len(grown([source], {"t": 2}, {"t": "a"})), grown([source], {"t": 1}, {}), grown([source], {"t": 2}, {"t": "b"})
    (1, [], [])
    """
    return [
        source
        for source in sources
        if source.partitions < counts.get(source.topic, 0) <= MAX_PARTITIONS
        and source.topic_id in (None, ids.get(source.topic))
    ]


def held(catalog: Catalog, source: Source) -> Catalog:
    """The catalog under which nothing of a source is read."""
    return with_source(catalog, msgspec.structs.replace(source, held=catalog.version + 1))


def with_partitions(catalog: Catalog, source: Source, count: int, instant: int | None) -> Catalog:
    """The catalog under which all partitions of a source are read, the new ones from the instant on; None: they count
    from the beginning, since nobody has read the source."""
    new = dict.fromkeys(range(source.partitions, count), BEGINNING if instant is None else instant)
    return with_source(
        catalog,
        msgspec.structs.replace(source, partitions=count, joined={**source.joined, **new}, held=None),
    )


def with_source(catalog: Catalog, source: Source) -> Catalog:
    """The catalog with a source changed, also where earlier versions of queries remember it."""
    changed = [after for item in catalog.objects.values() if (after := _reading(item, source)) != item]
    return catalog.with_changed(source, *(item for item in changed if item.name != source.name))


def _reading(item: Object, source: Source) -> Object:
    if not isinstance(item, Query) or not (item.former or item.over):
        return item
    former = None if item.former is None else _remembering(item.former, source)
    return msgspec.structs.replace(item, former=former, over=tuple(_remembering(view, source) for view in item.over))


def _remembering(former: Former, source: Source) -> Former:
    objects = tuple(
        source if isinstance(item, Source) and item.id == source.id else _reading(item, source)
        for item in former.objects
    )
    over = tuple(_remembering(view, source) for view in former.over)
    return msgspec.structs.replace(former, objects=objects, over=over)
