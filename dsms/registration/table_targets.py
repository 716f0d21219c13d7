"""Looks up the table that a statement names, and its columns."""

from __future__ import annotations

from collections.abc import Sequence

from dsms.model import statements as st
from dsms.model.catalog import Catalog, NotTable
from dsms.model.objects import Table
from dsms.registration.object_columns import column_named


def table_of(name: st.Name, catalog: Catalog) -> Table:
    """The table of a name. Raises SqlError if it is another kind of object."""
    target = catalog.find(name.text, name.place)
    if not isinstance(target, Table):
        raise NotTable(target, name.place, [table.name for table in catalog.tables()])
    return target


def writable(name: st.Name, catalog: Catalog) -> Table:
    """The table of a name, for a statement that writes it. Raises SqlError if a stream fills the table."""
    table = table_of(name, catalog)
    if table.filled_by is not None:
        raise name.place.error(
            f'table "{table.name}" is filled by query "{table.filled_by}", so statements cannot change its rows',
            "INSERT the UNION ALL of several streams, or combine tables in a view; "
            "DROP TABLE drops the table and its query",
        )
    return table


def columns_of(given: Sequence[st.Name], table: Table) -> list[str]:
    """The columns of an INSERT in the order of its values: those `given`, or all if none are. Raises SqlError if one
    does not exist or is listed twice."""
    names = [column_of(name, table) for name in given] or table.column_names
    for at, name in enumerate(given):
        if names[at] in names[:at]:
            raise name.place.error(f'column "{names[at]}" is listed twice')
    return names


def check_values(table: st.Name, columns: list[str], values: int) -> None:
    """Raises SqlError if the number of values in the rows of an INSERT differs from the number of its columns."""
    if values != len(columns):
        raise table.place.error(
            f"{len(columns)} columns but {values} values in a row", f"columns: {', '.join(columns)}"
        )


def column_of(name: st.Name, table: Table) -> str:
    """The column of a name, case-insensitive. Raises SqlError if it does not exist."""
    return column_named(name, table.column_names, f'table "{table.name}"')
