"""One-time SELECT: DuckDB over the relations of one instant."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa
from sqlglot import exp

from dsms.catalog.catalog import Catalog
from dsms.catalog.register import schema_and_keys
from dsms.catalog.result import StatementResult
from dsms.sql.bind import name_of
from dsms.sql.statements import Select
from operators.errors import SqlError

Relation = Callable[[str], list[dict[str, object]]]


def answer(statement: Select, catalog: Catalog, relation: Relation) -> StatementResult:
    """The rows of a SELECT over streams and views, each taken at its last final instant."""
    query = statement.select.copy()
    with duckdb.connect() as database:
        for table in list(query.find_all(exp.Table)):
            name = name_of(table)
            found = catalog.find(name)
            schema, _ = schema_and_keys(found, catalog)
            database.register(found.name, pa.Table.from_pylist(relation(name), schema=schema))
            table.set("this", exp.to_identifier(found.name, quoted=True))
        try:
            result = database.execute(query.sql(dialect="duckdb"))
        except duckdb.Error as error:
            raise SqlError(str(error).splitlines()[0]) from error
        columns = tuple(column[0] for column in result.description or ())
        rows = tuple(tuple(row) for row in result.fetchall())
    return StatementResult("SELECT", f"{len(rows)} rows", columns, rows)
