"""The columns of the objects of a catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from dsms.model import properties
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import ROW_NUMBER, Object, Query, Source
from dsms.model.schema import visible
from dsms.model.types import parse_type
from dsms.model.user_defined import Aggregate
from dsms.sql.binder.aggregates.defined_aggregates import definition_statement
from dsms.sql.binder.bind import plan_of
from dsms.sql.binder.streams.clock import clock_schema
from operators.core.errors import UserError


def column_named(name: st.Name, names: Sequence[str], owner: str) -> str:
    """The column of a name, case-insensitive, as it is spelled in `names`. Raises SqlError if there is none; `owner`
    says whose columns they are."""
    for known in names:
        if known.lower() == name.text.lower():
            return known
    raise name.place.error(f'column "{name.text}" not found in {owner}', "have: " + ", ".join(names))


def why_columns_unknown(item: Object, catalog: Catalog) -> str:
    """Why the columns of an object are unknown, if this version of dsms can no longer understand its text; else ""."""
    try:
        schema_and_keys(item, catalog)
    except UserError as error:
        return str(error)
    return ""


def schema_and_keys(item: Object, catalog: Catalog) -> tuple[pa.Schema, tuple[str, ...]]:
    """The visible columns of an object and its key."""
    if isinstance(item, Source):
        return item.schema, ()
    if isinstance(item, Query) and item.periodic is not None:
        return clock_schema(item, catalog)
    if isinstance(item, Aggregate):
        return _parameters(item), ()
    node = plan_of(item.name, catalog)
    return visible(node), properties.keys(node)


def earlier_columns(item: Object, catalog: Catalog, may_read: Callable[[str], bool]) -> tuple[str, ...]:
    """Notices about the sources and tables that a view or query reads with the columns that they had before ALTER."""
    if not isinstance(item, Query) or item.periodic is not None:
        return ()
    current = {*(source.id for source in catalog.sources()), *(table.source.id for table in catalog.tables())}
    read = properties.sources(plan_of(item.name, catalog))
    return tuple(_earlier(log) for log in read if log.id not in current and may_read(log.name))


def _earlier(log: Source) -> str:
    names = ", ".join(name for name in log.schema.names if not (log.table and name == ROW_NUMBER))
    before = (
        f'reads {"table" if log.table else "source"} "{log.name}" with the columns that it had before ALTER: {names}'
    )
    return f"{before}; CREATE OR REPLACE reads the current ones"


def _parameters(item: Aggregate) -> pa.Schema:
    """The parameters of the newest definition; those without a type are shown as NULL."""
    definition = definition_statement(item.parts[-1].sql)
    types = [pa.null() if field.type is None else parse_type(field.type) for field in definition.parameters]
    return pa.schema([(field.name.text, type_) for field, type_ in zip(definition.parameters, types, strict=True)])
