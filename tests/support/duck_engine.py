"""DuckDB as the independent engine: one a process, since making one takes longer than most answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import duckdb
import polars as pl

#: Rows of a table under construction.
_ROWS = "rows_to_insert"


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def connection() -> duckdb.DuckDBPyConnection:
    """One without the optimizer, which is wrong at times. Tables of different connections differ if they are TEMP."""
    made = _database().cursor()
    made.execute("PRAGMA disable_optimizer")
    return made


def fill(engine: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Makes `rows` the rows of the table, in columnar form: a statement a row takes longer than the answer."""
    engine.execute(f"DELETE FROM {table}")
    if rows:
        frame = pl.DataFrame(list(map(tuple, rows)), orient="row", infer_schema_length=None)
        engine.register(_ROWS, frame.to_arrow())
        engine.execute(f"INSERT INTO {table} FROM {_ROWS}")
