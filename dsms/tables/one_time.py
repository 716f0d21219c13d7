"""DuckDB in this process: answers to one-time queries over relations of one instant, and casts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from dsms.model.types import type_sql
from dsms.tables.engine_split import with_engine_calls
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.refusals import EngineRefusal, refused
from dsms.tables.times_in_range import check_times_in_columns, check_times_in_rows, time_columns
from operators import expressions
from operators.core.distinct_type import stored, stored_schema
from operators.core.errors import SqlError, UserError

if TYPE_CHECKING:
    import duckdb

Row = tuple[object, ...]


def evaluate(asked: OneTimeQueryWithRows) -> pa.Table:
    """The rows of a query.

    >>> evaluate(OneTimeQueryWithRows("SELECT 1 + 1 AS two", {})).to_pylist()
    [{'two': 2}]
    """
    with _answering(asked) as answered:
        rows: pa.Table = answered.to_arrow_table()
        check_times_in_columns(rows)
        return rows


def answer(asked: OneTimeQueryWithRows) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """The columns and rows of a query as Python values.

    >>> answer(OneTimeQueryWithRows("SELECT 1 + 1 AS two", {}))
    (('two',), ((2,),))
    """
    return typed_answer(asked)[:2]


def typed_answer(asked: OneTimeQueryWithRows) -> tuple[tuple[str, ...], tuple[Row, ...], tuple[str, ...]]:
    """The columns and rows of a query as Python values, and DuckDB's names of the types of the columns."""
    with _answering(asked) as answered:
        rows, types = tuple(answered.fetchall()), tuple(str(kind) for kind in answered.types)
        check_times_in_rows(answered.columns, time_columns(list(types)), rows)
        return tuple(answered.columns), rows, types


def casts_of(schema: pa.Schema) -> dict[str, str]:
    """The SQL types of the columns whose type Arrow stores as another one."""
    return {field.name: type_sql(field.type) for field in schema if field.type != stored(field.type)}


@contextmanager
def _answering(asked: OneTimeQueryWithRows) -> Iterator[duckdb.DuckDBPyRelation]:
    """DuckDB's answer to a query. Raises SqlError with DuckDB's reason if it refuses the query."""
    from dsms.tables.database import register
    from dsms.tables.engine_functions import reason_of, registered

    try:
        called = with_engine_calls(asked, refusal_of)
    except EngineRefusal as refusal:
        raise refused(refusal, asked) from refusal
    # functions are removed while an answer may be unread, which DuckDB allows only from another connection
    with _connection() as keeper, registered(keeper, called.functions), _connection() as database:
        try:
            for name, rows in asked.relations.items():
                register(database, name, rows.cast(stored_schema(rows.schema)), casts_of(rows.schema))
            yield database.sql(called.sql)
        except _refusal() as error:
            raise refused(EngineRefusal(reason_of(error)), asked) from error


def refusal_of(asked: OneTimeQueryWithRows) -> str:
    """DuckDB's reason for refusing a query."""
    try:
        with _answering(asked):
            return ""
    except SqlError as error:
        return error.message


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


def check_only_selects(sql: str) -> None:
    """Raises SqlError unless DuckDB can parse the text and reads it as exactly one SELECT.

    >>> check_only_selects("SELECT ';' AS a")
    >>> check_only_selects("SELECT 1; DROP TABLE t")
    Traceback (most recent call last):
    ...
    operators.core.errors.SqlError: line 1, column 1: only a single SELECT is allowed here
    """
    with _connection() as database:
        try:
            kinds = [statement.type.name for statement in database.extract_statements(sql)]
        except _refusal() as error:
            raise SqlError(str(error).splitlines()[0]) from error
    if kinds != ["SELECT"]:
        raise SqlError("only a single SELECT is allowed here")


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The database of the process: creating one takes longer than most answers. Registered relations belong to a single
    connection. The library is imported on first use: coordinators that do not need it save its 15 MB."""
    from dsms.tables.database import connect

    return connect()


def _connection() -> duckdb.DuckDBPyConnection:
    return _database().cursor()


def _refusal() -> type[Exception]:
    """The base class of DuckDB's errors."""
    import duckdb

    return duckdb.Error


def cast_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `rows`, in order, cast to those of a schema. Raises a UserError with the column that does not fit.

    >>> cast_columns(pa.table({"x": ["7", None]}), pa.schema([("a", pa.int32())])).to_pylist()
    [{'a': 7}, {'a': None}]
    """
    kinds = type_names(schema)
    columns = [_cast(rows.column(at), field, kinds[at]) for at, field in enumerate(schema)]
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _cast(column: pa.ChunkedArray[Any], field: pa.Field[Any], kind: str) -> pa.ChunkedArray[Any]:
    if column.type == field.type:
        check_times_in_columns(pa.table({field.name: column}))
        return column
    if pa.types.is_interval(column.type):
        raise UserError(
            f'column "{field.name}" is {type_sql(field.type)}: an INTERVAL is no value of a column',
            hint="add the interval to a time, or write it as text",
        )
    if column.null_count == len(column):
        return pa.chunked_array([pa.array([None] * len(column), stored(field.type))]).cast(field.type)
    if not pa.types.is_nested(field.type) and not isinstance(column.type, pa.BaseExtensionType):
        return _cast_scalars(column, field)
    with _connection() as database:
        database.register("given", pa.table({"value": column}))
        try:
            converted = database.sql(f"SELECT CAST(value AS {kind}) AS value FROM given").to_arrow_table()
        except _refusal() as error:
            reason = str(error).splitlines()[0].partition(": ")[2].partition(" when casting")[0]
            raise UserError(
                f'column "{field.name}" is {type_sql(field.type)}: {reason[:1].lower()}{reason[1:]}'
            ) from error
    check_times_in_columns(converted.rename_columns([field.name]))
    cast: pa.ChunkedArray[Any] = converted.column(0).cast(field.type)
    return cast


def _cast_scalars(column: pa.ChunkedArray[Any], field: pa.Field[Any]) -> pa.ChunkedArray[Any]:
    """A column cast as by the language's CAST."""
    given = pl.DataFrame([pl.Series(field.name, column)])
    target = expressions.cast(expressions.Column(field.name, column.type), field.type)
    values, faults = expressions.evaluate(given, {field.name: target})
    if fault := faults.drop_nulls().to_list()[:1]:
        raise UserError(f'column "{field.name}" is {type_sql(field.type)}: {fault[0]}')
    cast: pa.ChunkedArray[Any] = values.to_arrow().column(0).cast(field.type)
    return cast
