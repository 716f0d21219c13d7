"""Partitions that were added to the topic of a source: pure decisions over the catalog.

A new partition is read from its first offset. Its frontier (an exact watermark) starts at the greatest instant that any
reader of the source has passed or published up to; records of the partition below that instant are late. The instant is
stored in the catalog, so replays and later queries give the same results. Reading of the source is suspended while the
instant is being determined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import Former, Object, Query, Source
from operators.core.delta import BEGINNING, MAX_PARTITIONS


def sources_with_added_partitions(
    sources: Iterable[Source], counts: Mapping[str, int], ids: Mapping[str, str]
) -> list[Source]:
    """The sources whose topics have more partitions than are read. Topics that were re-created since the source was
    registered are left out.

    >>> source = Source(name="s", id="o1", sql="", columns=(), topic="t", topic_id="a")
    >>> len(sources_with_added_partitions([source], {"t": 2}, {"t": "a"}))
    1
    >>> sources_with_added_partitions([source], {"t": 1}, {})
    []
    >>> sources_with_added_partitions([source], {"t": 2}, {"t": "b"})
    []
    """
    return [
        source
        for source in sources
        if source.partitions < counts.get(source.topic, 0) <= MAX_PARTITIONS
        and source.topic_id in (None, ids.get(source.topic))
    ]


def with_reading_suspended(catalog: Catalog, source: Source) -> Catalog:
    """The catalog in which reading of the source is suspended."""
    return with_source(catalog, msgspec.structs.replace(source, adding_partitions_since=catalog.version + 1))


def with_partitions(catalog: Catalog, source: Source, count: int, instant: int | None) -> Catalog:
    """The catalog in which the source is read with `count` partitions. The frontier of the new ones starts at
    `instant`, or at the beginning if that is None, because the source has not been read yet."""
    new = dict.fromkeys(range(source.partitions, count), BEGINNING if instant is None else instant)
    return with_source(
        catalog,
        msgspec.structs.replace(
            source, partitions=count, added_partitions={**source.added_partitions, **new}, adding_partitions_since=None
        ),
    )


def with_source(catalog: Catalog, source: Source) -> Catalog:
    """The catalog with a version of a source replaced, also in the copies that earlier versions of queries hold."""
    changed = [
        after for item in catalog.objects.values() if (after := _with_source_in_former_versions(item, source)) != item
    ]
    current = catalog.find(source.name)
    assert isinstance(current, Source)
    return catalog.with_changed(current.with_version(source), *changed)


def _with_source_in_former_versions(item: Object, source: Source) -> Object:
    if not isinstance(item, Query) or not (item.former or item.over or item.next_over):
        return item
    former = None if item.former is None else _former_with_source(item.former, source)
    over = tuple(_former_with_source(view, source) for view in item.over)
    following = item.next_over and tuple(_former_with_source(view, source) for view in item.next_over)
    return msgspec.structs.replace(item, former=former, over=over, next_over=following)


def _former_with_source(former: Former, source: Source) -> Former:
    """The earlier version with the source as it is now, but with the name that the texts of the version have for it."""
    objects = tuple(
        _as_it_was_named(source, item) if isinstance(item, Source) else _with_source_in_former_versions(item, source)
        for item in former.objects
    )
    over = tuple(_former_with_source(view, source) for view in former.over)
    return msgspec.structs.replace(former, objects=objects, over=over)


def _as_it_was_named(source: Source, before: Source) -> Source:
    """A copy of a source with the version of the given one as that is now, but with the name that it had."""
    known = next((version for version in before.versions if version.id == source.id), None)
    return before if known is None else before.with_version(source.named_like(known))
