"""How a SELECT that runs once finds the rows that it reads: by key, by an index, or all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Table
from dsms.registration.object_columns import schema_and_keys
from dsms.tables.equal_values import equal_values
from dsms.tables.one_time_query import OneTimeQuery
from dsms.tables.sorted_index import Seek
from dsms.tables.sought_values import sought_values
from dsms.tables.wanted_keys import KeyWriter


def access_paths(asked: OneTimeQuery, catalog: Catalog) -> Iterator[str]:
    """A line for each object that the query reads, if its rows are kept. An index is used if it finds at most a quarter
    of the rows."""
    wanted, sought = equal_values(asked), sought_values(asked)
    for name in asked.objects.values():
        if not isinstance(item := catalog.find(name), Query | Table):
            continue
        schema, keys = schema_and_keys(item, catalog)
        seek = Seek(catalog.indexes_on(name), sought.get(name, {}))
        if keys and KeyWriter(pa.schema([schema.field(key) for key in keys])).wanted(wanted.get(name, {})):
            yield f'rows of "{name}" by key ({", ".join(keys)})'
        elif (index := seek.usable(schema)) is not None:
            yield f'rows of "{name}" by index "{index}" ({", ".join(seek.indexes[index])})'
        else:
            yield f'all rows of "{name}"'
