"""The reasons for which DuckDB refuses a one-time query, as errors with a place in the text of the statement."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from dsms.model.position import position_of
from dsms.tables.one_time_query import OneTimeQueryWithRows
from operators.core.errors import SqlError
from operators.core.nearest import have

_NO_COLUMN = re.compile(r'Referenced column "([^"]+)" not found|does not have a column named "([^"]+)"')
_NAMED = re.compile(r'"([^"]+)"')
_CLASS = re.compile(r"^(Binder|Parser|Catalog) Error: ")


class EngineRefusal(SqlError):
    """DuckDB refuses a query, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownColumn(SqlError):
    """A one-time query names a column that none of its relations has."""


def refused(refusal: EngineRefusal, asked: OneTimeQueryWithRows) -> SqlError:
    """The error for a query that DuckDB has refused. It is at the first word of the statement that is the name in the
    reason. Without the syntax tree of the statement, it is the refusal.

    >>> import pyarrow as pa
    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT a,\\n  nope FROM t")
    >>> asked = OneTimeQueryWithRows("", {"t": pa.table({"a": [1]})}, query)
    >>> print(refused(EngineRefusal('Binder Error: Referenced column "nope" not found in FROM clause!'), asked))
    line 2, column 3: column "nope" not found; have: a
    """
    if (query := asked.query) is None:
        return refusal
    reason = refusal.reason
    if missing := _NO_COLUMN.search(reason):
        name = missing[1] or missing[2]
        line, column = _place(name, query)
        return UnknownColumn(f'column "{name}" not found', line=line, column=column, hint=have(name, _columns(asked)))
    named = _NAMED.search(reason)
    text = _CLASS.sub("", reason)
    line, column = _place(named[1], query) if named else (1, 1)
    return SqlError(text[:1].lower() + text[1:] if text[1:2].islower() else text, line=line, column=column)


def without_place(refusal: EngineRefusal) -> SqlError:
    """The error for a query whose text is not that of the client, so that its place is the beginning.

    >>> print(without_place(EngineRefusal('Binder Error: Referenced column "nope" not found in FROM clause!')))
    line 1, column 1: column "nope" does not exist
    """
    missing = _NO_COLUMN.search(refusal.reason)
    return refusal if missing is None else UnknownColumn(f'column "{missing[1] or missing[2]}" does not exist')


def _columns(asked: OneTimeQueryWithRows) -> list[str]:
    names: Iterable[str] = (name for rows in asked.relations.values() for name in rows.schema.names)
    return list(dict.fromkeys(names))


def _place(name: str, query: exp.Expr) -> tuple[int, int]:
    """Line and column of the first word of the query that refers to this name, or of the expression that is this text;
    the beginning if there is none. An alias gives a name and refers to none."""
    words = (node for node in query.find_all(exp.Identifier, bfs=False) if node.name.casefold() == name.casefold())
    referring = (word for word in words if not isinstance(word.parent, exp.Alias | exp.TableAlias))
    found = next(referring, None) or next((node for node in query.walk(bfs=False) if node.sql() == name), None)
    return (1, 1) if found is None else position_of(found)
