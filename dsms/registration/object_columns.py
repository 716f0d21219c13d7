"""The columns of the objects of a catalog."""

from __future__ import annotations

import pyarrow as pa

from dsms.model import properties
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source
from dsms.model.schema import visible
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.clock import clock_schema


def schema_and_keys(item: Object, catalog: Catalog) -> tuple[pa.Schema, tuple[str, ...]]:
    """The visible columns of an object and its key."""
    if isinstance(item, Source):
        return item.schema, ()
    if isinstance(item, Query) and item.periodic is not None:
        return clock_schema(item, catalog)
    node = plan_of(item.name, catalog)
    return visible(node), properties.keys(node)
