"""One-time queries: DuckDB over relations of one instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.types import type_sql
from dsms.sql.parser.table_names import name_of
from operators import expressions
from operators.core.distinct_type import DistinctType, stored, stored_schema
from operators.core.errors import SqlError, UserError

if TYPE_CHECKING:
    import duckdb

Relation = Callable[[str], pa.Table]
Row = tuple[object, ...]
#: A query can reach neither files nor the network, nor Python objects by name.
_SHUT: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "threads": 1,
}


def evaluate(query: exp.Expr, catalog: Catalog, relation: Relation) -> pa.Table:
    """The rows of a query; `relation` gives the rows of a stream, view or table that it names.

    >>> import sqlglot
    >>> evaluate(sqlglot.parse_one("SELECT 1 + 1 AS two"), Catalog(), lambda name: pa.table({})).to_pylist()
    [{'two': 2}]
    """
    resolved, names = _resolved(query, catalog)
    with _answering(resolved, {name: relation(name) for name in names}) as answered:
        rows: pa.Table = answered.to_arrow_table()
        return rows


def answer(query: exp.Expr, catalog: Catalog, relation: Relation) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """The columns and rows of a query as Python values.

    >>> import sqlglot
    >>> answer(sqlglot.parse_one("SELECT 1 + 1 AS two"), Catalog(), lambda name: pa.table({}))
    (('two',), ((2,),))
    """
    resolved, names = _resolved(query, catalog)
    with _answering(resolved, {name: relation(name) for name in names}) as answered:
        return tuple(answered.columns), tuple(answered.fetchall())


def names_of(query: exp.Expr, catalog: Catalog) -> list[str]:
    """The streams, views and tables that a query names, each once, as they are spelled in the catalog."""
    return _resolved(query, catalog)[1]


@contextmanager
def _answering(query: exp.Expr, relations: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyRelation]:
    """DuckDB's answer to a query over named relations; SqlError with DuckDB's reason if it refuses the query."""
    with _connection() as database:
        for name, rows in relations.items():
            _register(database, name, rows)
        try:
            yield database.sql(query.sql(dialect="duckdb"))
        except _refusal() as error:
            raise SqlError(str(error).splitlines()[0]) from error


def _register(database: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Makes the rows a relation of this name. Columns whose type Arrow stores as another one are cast to it."""
    distinct = [field for field in rows.schema if field.type != stored(field.type)]
    if not distinct:
        database.register(name, rows)
        return
    source = f"stored {name}"
    database.register(source, rows.cast(stored_schema(rows.schema)))
    casts = ", ".join(f"CAST({_quoted(f.name)} AS {type_sql(f.type)}) AS {_quoted(f.name)}" for f in distinct)
    database.execute(f"CREATE TEMP VIEW {_quoted(name)} AS SELECT * REPLACE ({casts}) FROM {_quoted(source)}")


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


def type_names(schema: pa.Schema) -> list[str]:
    """DuckDB's names of the types of columns.

    >>> type_names(pa.schema([("a", pa.int32()), ("b", pa.list_(pa.string()))]))
    ['INTEGER', 'VARCHAR[]']
    """
    with _connection() as database:
        database.register("described", stored_schema(schema).empty_table())
        names = map(str, database.sql("SELECT * FROM described").types)
        return [
            name if field.type == stored(field.type) else type_sql(field.type)
            for name, field in zip(names, schema, strict=True)
        ]


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The database of the process: creating one takes longer than most answers. Registered relations belong to a single
    connection. The library is imported on first use, since many coordinators are asked nothing and save its 15 MB."""
    import duckdb

    return duckdb.connect(config=_SHUT)


def _connection() -> duckdb.DuckDBPyConnection:
    return _database().cursor()


def _refusal() -> type[Exception]:
    """The base class of DuckDB's errors."""
    import duckdb

    return duckdb.Error


def _resolved(query: exp.Expr, catalog: Catalog) -> tuple[exp.Expr, list[str]]:
    """The query with plain names in place of R(S), and these names."""
    resolved = query.copy()
    common = {cte.alias.lower() for cte in resolved.find_all(exp.CTE)}
    names: dict[str, None] = {}
    for table in list(resolved.find_all(exp.Table)):
        name = name_of(table)
        if name.lower() in common:
            continue
        read = catalog.find(name)
        names.setdefault(read.name)
        table.set("this", exp.to_identifier(read.name, quoted=True))
    return resolved, list(names)


def cast_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `rows`, in order, cast to those of a schema; UserError names a column that does not fit.

    >>> cast_columns(pa.table({"x": ["7", None]}), pa.schema([("a", pa.int32())])).to_pylist()
    [{'a': 7}, {'a': None}]
    """
    kinds = type_names(schema)
    columns = [_cast(rows.column(at), field, kinds[at]) for at, field in enumerate(schema)]
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _cast(column: pa.ChunkedArray[Any], field: pa.Field[Any], kind: str) -> pa.ChunkedArray[Any]:
    if column.type == field.type:
        return column
    if isinstance(field.type, DistinctType) and pa.types.is_string(column.type):
        return _cast_text(column, field)
    with _connection() as database:
        database.register("given", pa.table({"value": column}))
        try:
            converted = database.sql(f"SELECT CAST(value AS {kind}) AS value FROM given").to_arrow_table()
        except _refusal() as error:
            reason = str(error).splitlines()[0].partition(": ")[2].partition(" when casting")[0]
            raise UserError(
                f'column "{field.name}" is {type_sql(field.type)}: {reason[:1].lower()}{reason[1:]}'
            ) from error
    cast: pa.ChunkedArray[Any] = converted.column(0).cast(field.type)
    return cast


def _cast_text(column: pa.ChunkedArray[Any], field: pa.Field[Any]) -> pa.ChunkedArray[Any]:
    """A column of text cast by an expression: DuckDB's reason for refusing a value would not be understood."""
    given = pl.DataFrame([pl.Series(field.name, column)])
    target = expressions.cast(expressions.Column(field.name, column.type), field.type)
    values, faults = expressions.evaluate(given, {field.name: target})
    if fault := faults.drop_nulls().to_list()[:1]:
        raise UserError(f'column "{field.name}" is {type_sql(field.type)}: {fault[0]}')
    cast: pa.ChunkedArray[Any] = values.to_arrow().column(0).cast(field.type)
    return cast
