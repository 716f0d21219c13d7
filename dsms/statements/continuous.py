"""Decides which SELECT and INSERT statements without STREAMED are continuous: as in ESL, those over a stream that
CREATE STREAM declares or derives."""

from __future__ import annotations

from collections.abc import Iterable

from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Stream


def reads_streams(names: Iterable[str], catalog: Catalog) -> bool:
    """Whether one of the names is a declared or derived stream."""
    return any(_streams(catalog.get(name)) for name in names)


def _streams(item: Object | None) -> bool:
    return (isinstance(item, Stream) and item.declared) or (isinstance(item, Query) and item.stream)
