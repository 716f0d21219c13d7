"""DuckDB as the independent engine: one instance per process, since starting one takes longer than most answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import duckdb
import polars as pl

#: The view under which the rows to insert are registered.
_ROWS = "rows_to_insert"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def connection() -> duckdb.DuckDBPyConnection:
    """A connection without the optimizer, which sometimes gives wrong answers. TEMP tables belong to one connection."""
    cursor = _database().cursor()
    cursor.execute("PRAGMA disable_optimizer")
    return cursor


def fill(engine: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Replaces the rows of the table. They are inserted as columns, since one statement per row would take too long."""
    engine.execute(f"DELETE FROM {table}")
    if rows:
        frame = pl.DataFrame(list(map(tuple, rows)), orient="row", infer_schema_length=None)
        engine.register(_ROWS, frame.to_arrow())
        engine.execute(f"INSERT INTO {table} FROM {_ROWS}")
