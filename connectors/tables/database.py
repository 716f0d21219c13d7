"""Reads the rows of a query to a SQL database, in batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError

from operators.core.errors import DsmsError, ExternalError, UserError

BATCH_ROWS = 10_000


def database_batches(url: str, query: str) -> Iterator[pa.Table]:
    """The rows of a query in batches of 10 000; errors do not contain the url, which may have a password.

    >>> [batch.to_pylist() for batch in database_batches("sqlite://", "SELECT 1 AS a, 'x' AS b")]
    [[{'a': 1, 'b': 'x'}]]
    """
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            streamed = connection.execution_options(stream_results=True, max_row_buffer=BATCH_ROWS)
            result = streamed.execute(sa.text(query))
            names = list(result.keys())
            for rows in result.partitions(BATCH_ROWS):
                yield _table(names, [tuple(row) for row in rows])
    except SQLAlchemyError as error:
        raise _translated(error) from error
    finally:
        engine.dispose()


def _engine(url: str) -> sa.Engine:
    try:
        return sa.create_engine(url)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        known = "dialect://user:password@host/database"
        raise UserError(
            f"cannot use the database url: {type(error).__name__}",
            hint=f"use {known}, and install the dialect's driver",
        ) from None


def _table(names: list[str], rows: list[tuple[object, ...]]) -> pa.Table:
    try:
        columns = [pa.array(values) for values in zip(*rows, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"a column of the query has values of several types: {error}") from error
    return pa.table(columns, names=names)


def _translated(error: SQLAlchemyError) -> DsmsError:
    reason = str(getattr(error, "orig", None) or type(error).__name__).splitlines()[0]
    if isinstance(error, OperationalError):
        return ExternalError(f"the database failed to run the query: {reason}")
    return UserError(f"the database refused the query: {reason}")
