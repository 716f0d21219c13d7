"""Which objects need which."""

from __future__ import annotations

from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Table
from dsms.sql.binder.read_names import reads


def dependents(catalog: Catalog, below: Object) -> list[Object]:
    """All objects that need an object, directly or not, in order of creation."""
    needed, found = {below.name.lower()}, list[Object]()
    for one in catalog.objects.values():
        if needed & {name.lower() for name in _needs(one)}:
            needed.add(one.name.lower())
            found.append(one)
    return found


def _needs(found: Object) -> list[str]:
    """What an object reads, and the logs that it still reads for what it was before."""
    former = found.former.objects if isinstance(found, Query) and found.former is not None else ()
    return [*reads(found), *(one.name for one in former if isinstance(one, Source | Table))]
