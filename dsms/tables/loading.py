"""Rows of files and databases for a table, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from pathlib import Path

import pyarrow as pa

from dsms.model import statements as st
from dsms.model.objects import Table
from dsms.model.statements import Load, LoadDatabase, LoadFile
from dsms.tables.statements import in_order
from operators.core.errors import UserError


@singledispatch
def batches_of(load: Load, table: Table) -> Iterator[pa.Table]:
    """The rows that a statement loads, in batches, as columns in the order of the table's."""
    raise TypeError(load)


@batches_of.register
def _(load: LoadFile, table: Table) -> Iterator[pa.Table]:
    return rows_of_file(Path(load.path), table, load.options)


def rows_of_file(path: Path, table: Table, options: Sequence[st.Clause] = ()) -> Iterator[pa.Table]:
    """The rows of a CSV or Parquet file."""
    # what reads files and databases is imported by the first that is read: most coordinators read none
    from connectors.tables.files import CsvLayout, file_batches

    layout = CsvLayout(*_layout(options, table))
    form = next((one.words[0].lower() for one in options if one.name == "format"), path.suffix[1:].lower())
    for batch in file_batches(path, form, layout):
        yield _fitted(batch, table)


@batches_of.register
def _(load: LoadDatabase, table: Table) -> Iterator[pa.Table]:
    from connectors.tables.database import database_batches

    for batch in database_batches(load.url, load.query):
        yield _fitted(batch, table)


def _fitted(batch: pa.Table, table: Table) -> pa.Table:
    """Columns by name, whatever their case; one that the table does not have is an error."""
    known = {name.lower(): name for name in table.schema.names}
    strange = [name for name in batch.column_names if name.lower() not in known]
    if strange:
        raise UserError(
            f'column "{strange[0]}" not found in table "{table.name}"', hint="have: " + ", ".join(table.schema.names)
        )
    return in_order(table, batch.rename_columns([known[name.lower()] for name in batch.column_names]))


def _layout(options: Sequence[st.Clause], table: Table) -> tuple[str, str, tuple[str, ...] | None]:
    """The delimiter, what stands for NULL, and the columns of a file without a header."""
    given = {one.name: one.words[0] for one in options}
    headless = given.get("header", "true").lower() in ("false", "off", "0")
    return given.get("delimiter", ","), given.get("null", ""), tuple(table.schema.names) if headless else None
