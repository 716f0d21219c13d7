"""Which objects need which."""

from __future__ import annotations

from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Table
from dsms.sql.binder.read_names import reads


def dependents(catalog: Catalog, below: Object) -> list[Object]:
    """All objects that depend on an object, directly or indirectly, in order of creation."""
    needed, above = {below.name.lower()}, list[Object]()
    for item in catalog.objects.values():
        if needed & {name.lower() for name in _needs(item)}:
            needed.add(item.name.lower())
            above.append(item)
    return above


def _needs(item: Object) -> list[str]:
    """The names of what an object reads, and of the logs that the query it replaced reads while that is needed."""
    former = item.former.objects if isinstance(item, Query) and item.former is not None else ()
    return [*reads(item), *(log.name for log in former if isinstance(log, Source | Table))]
