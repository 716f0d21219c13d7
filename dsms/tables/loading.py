"""Reads the rows of files and databases for a table, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import singledispatch
from pathlib import Path

import pyarrow as pa

from connectors.credentials.secrets import resolved_url
from dsms.model import statements as st
from dsms.model.objects import Table
from dsms.model.statements import Load, LoadDatabase, LoadFile
from operators.core.errors import UserError


@singledispatch
def batches_of(load: Load, table: Table) -> Iterator[pa.Table]:
    """The rows that a statement loads, in batches whose columns are some of the table's."""
    raise TypeError(load)


@batches_of.register
def _(load: LoadFile, table: Table) -> Iterator[pa.Table]:
    return rows_of_file(Path(load.path), table, load.options)


def rows_of_file(path: Path, table: Table, options: Sequence[st.Clause] = ()) -> Iterator[pa.Table]:
    """The rows of a CSV or Parquet file."""
    # the libraries for files and databases are imported on first use: most coordinators do not need them
    from connectors.tables.files import CsvLayout, file_batches

    layout = CsvLayout(*_layout(options, table))
    form = next((option.words[0].lower() for option in options if option.name == "format"), path.suffix[1:].lower())
    for batch in file_batches(path, form, layout):
        yield _fitted(batch, table)


@batches_of.register
def _(load: LoadDatabase, table: Table) -> Iterator[pa.Table]:
    from connectors.tables.database import database_batches

    for batch in database_batches(resolved_url(load.url, os.environ), load.query):
        yield _fitted(batch, table)


def _fitted(batch: pa.Table, table: Table) -> pa.Table:
    """The batch with its columns matched to the table's by name without case. Raises UserError for unknown columns."""
    known = {name.lower(): name for name in table.column_names}
    unknown = [name for name in batch.column_names if name.lower() not in known]
    if unknown:
        raise UserError(
            f'column "{unknown[0]}" not found in table "{table.name}"', hint="have: " + ", ".join(table.column_names)
        )
    return batch.rename_columns([known[name.lower()] for name in batch.column_names])


def _layout(options: Sequence[st.Clause], table: Table) -> tuple[str, str, tuple[str, ...] | None]:
    """The delimiter, the text for NULL, and the columns of a file without a header line."""
    given = {option.name: option.words[0] for option in options}
    headless = given.get("header", "true").lower() in ("false", "off", "0")
    return given.get("delimiter", ","), given.get("null", ""), tuple(table.column_names) if headless else None
