"""Runs a query in a SQL database and reads its rows in batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError

from operators.core.errors import DsmsError, ExternalError, UserError
from operators.core.masking import MASK

BATCH_ROWS = 10_000
#: The actions that a query of sqlite may perform.
_READING = frozenset({
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_TRANSACTION,
})  # fmt: skip


def database_batches(url: str, query: str) -> Iterator[pa.Table]:
    """The rows of a query in batches of 10 000. Errors do not contain the URL, which may have a password.

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
        raise translated(error, engine.url.password, "the query") from error
    finally:
        engine.dispose()


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return _sqlite_engine(parsed)
        return sa.create_engine(parsed)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise unusable(error) from None


def unusable(error: Exception) -> UserError:
    """The error for a URL that SQLAlchemy cannot use."""
    known = "dialect://user:${secret:NAME}@host/database"
    return UserError(
        f"cannot use the database url: {type(error).__name__}",
        hint=f"use {known}, and install the dialect's driver",
    )


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    """An engine that reads a file, and never creates or changes one; without a file it has no tables."""
    if url.get_driver_name() != "pysqlite":
        raise UserError("sqlite is supported with the driver pysqlite only", hint="use sqlite:////path/of/the/file")
    if url.database is None or url.database == ":memory:":
        return sa.create_engine("sqlite://", creator=lambda: _reading_only("file::memory:"))
    file = Path(url.database)
    if not file.is_file():
        raise UserError(f'there is no sqlite database "{file}"', hint="use the path of a file: sqlite:////path/of/file")
    name = f"{file.absolute().as_uri()}?mode=ro"
    return sa.create_engine("sqlite://", creator=lambda: _reading_only(name))


def _reading_only(name: str) -> sqlite3.Connection:
    """A connection that runs only queries, because ATTACH and VACUUM INTO could create other files."""
    connection = sqlite3.connect(name, uri=True, check_same_thread=False)
    connection.set_authorizer(_authorized)
    return connection


def _authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Whether an action of a query is allowed. SQLAlchemy itself reads one setting."""
    asks = action == sqlite3.SQLITE_PRAGMA and first == "read_uncommitted" and second is None
    return sqlite3.SQLITE_OK if asks or action in _READING else sqlite3.SQLITE_DENY


def _table(names: list[str], rows: list[tuple[object, ...]]) -> pa.Table:
    try:
        columns = [pa.array(values) for values in zip(*rows, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"a column of the query has values of several types: {error}") from error
    return pa.table(columns, names=names)


def translated(error: SQLAlchemyError, password: str | None, what: str) -> DsmsError:
    """This project's error, without the password, for a database error in `what`, such as a query."""
    reason = str(getattr(error, "orig", None) or type(error).__name__).splitlines()[0]
    reason = reason.replace(str(password), MASK) if password else reason  # some drivers repeat the password
    # sqlite reports an error in the query, such as an unknown table, as an OperationalError
    wrong_query = getattr(getattr(error, "orig", None), "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    if isinstance(error, OperationalError) and not wrong_query:
        return ExternalError(f"the database failed to run {what}: {reason}")
    return UserError(f"the database refused {what}: {reason}")
