"""DuckDB connections for one-time statements and casts."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from operators.core.quoting import quoted_identifier


def connect(memory_mb: int | None = None) -> duckdb.DuckDBPyConnection:
    """A database in memory, from which a query reaches neither files nor the network, nor Python objects by name."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": False,
        "python_enable_replacements": False,
        "threads": 1,
    }
    if memory_mb is not None:
        config |= {"memory_limit": f"{memory_mb}MiB", "temp_directory": "", "max_temp_directory_size": "0B"}
    database = duckdb.connect(config=config)
    database.execute("SET lock_configuration = true")
    return database


def register(database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table, casts: dict[str, str]) -> None:
    """Registers the rows as a relation of this name; `casts` has the SQL types of columns to cast."""
    if not casts:
        database.register(name, rows)
        return
    source = f"stored {name}"
    database.register(source, rows)
    columns = ", ".join(
        f"CAST({quoted_identifier(column)} AS {kind}) AS {quoted_identifier(column)}" for column, kind in casts.items()
    )
    database.execute(
        f"CREATE TEMP VIEW {quoted_identifier(name)} AS SELECT * REPLACE ({columns}) FROM {quoted_identifier(source)}"
    )
