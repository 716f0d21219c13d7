"""Runs a client's statement: by the coordinator, by a built-in answer, or over PostgreSQL's catalog."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from dsms.coordinator.catalog.lookup import ReadableObject
from dsms.coordinator.postgres.builtin_answers import builtin_answer
from dsms.coordinator.postgres.catalog import asked_of_catalog, catalog_query, may_ask_catalog
from dsms.coordinator.postgres.catalog_names import UnknownRelation
from dsms.coordinator.postgres.parameters import words
from dsms.coordinator.postgres.wire_types import ARRAYS, BIGINT, INT2VECTOR, Type, type_of, type_of_values
from dsms.coordinator.tables.point_selects import Lookup
from dsms.model import statements as st
from dsms.model.catalog import NotFound
from dsms.model.no_final_instant import NoFinalInstant
from dsms.model.principal import Caller, Forbidden
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.dialect import Dsms
from dsms.statements.registry import parse
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.refusals import EngineRefusal, UnknownColumn, without_place
from dsms.tables.select_budget import Cancelled, LimitExceeded, TookTooLong, TooManySelects
from operators.core.errors import DsmsError, ExternalError, SqlError, UserError

_BIGINTS = ARRAYS[BIGINT]
_READING = ("SELECT", "WITH", "VALUES", "SHOW", "DESCRIBE", "EXPLAIN")
#: Classes of errors with their SQLSTATE; the first match applies.
_CODES: tuple[tuple[type[DsmsError], str], ...] = (
    (NoFinalInstant, "55000"),
    (NotFound, "42P01"),
    (UnknownRelation, "42P01"),
    (UnknownColumn, "42703"),
    (SqlError, "42601"),
    (Forbidden, "42501"),
    (TookTooLong, "57014"),
    (Cancelled, "57014"),
    (LimitExceeded, "54000"),
    (TooManySelects, "53300"),
    (UserError, "22023"),
    (ExternalError, "57P03"),
    (DsmsError, "XX000"),
)


class Executes(Protocol):
    """Runs statements."""

    def execute(self, sql: str, caller: Caller, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """Runs the statements and returns their results."""
        ...

    def lookup_of(self, sql: str, caller: Caller) -> Lookup | None:
        """The look-up by key in a text, if a text that differs only in values of literals has run before; otherwise
        None."""
        ...

    def look_up_all(self, lookups: Sequence[Lookup]) -> list[StatementResult | DsmsError]:
        """The answers to look-ups in one view, at one instant."""
        ...

    def readable(self, caller: Caller) -> list[ReadableObject]:
        """The streams, views, queries and tables that the caller may read."""
        ...

    def answered(self, asked: OneTimeQueryWithRows, cancelled: threading.Event) -> StatementResult:
        """DuckDB's answer to a query over the relations that the query comes with."""
        ...


@dataclass(frozen=True)
class Outcome:
    """The result of a statement, with the types of its columns. `transaction`: whether the client regards itself as
    inside a transaction afterwards; None: as before."""

    result: StatementResult
    types: tuple[Type, ...] = ()
    transaction: bool | None = None

    @property
    def tag(self) -> str:
        """PostgreSQL's command tag: `SELECT 3`, `INSERT 0 2`, `CREATE VIEW`.

        >>> Outcome(StatementResult("INSERT", "2 rows at instant 7")).tag
        'INSERT 0 2'
        """
        statement = self.result.statement
        if self.result.columns and statement not in ("INSERT", "UPDATE", "DELETE"):
            return f"{'FETCH' if statement == 'FETCH' else 'SELECT'} {len(self.result.rows)}"
        count = re.match(r"\d+", self.result.message)
        if statement not in ("INSERT", "UPDATE", "DELETE") or count is None:
            return statement
        return f"INSERT 0 {count[0]}" if statement == "INSERT" else f"{statement} {count[0]}"


def lookup_of(sql: str, service: Executes, caller: Caller) -> Lookup | None:
    """The look-up by key in a statement; None for any other statement, and for one that would have to be parsed
    first."""
    return None if may_ask_catalog(sql) else service.lookup_of(sql, caller)


def outcome_of(sql: str, service: Executes, caller: Caller, cancelled: threading.Event) -> Outcome:
    """Runs one statement and returns its outcome. Raises the errors of the coordinator."""
    if (known := builtin_answer(sql, caller.principal.name)) is not None:
        return typed(known.result, known.transaction)
    if (query := catalog_query(sql)) is not None:
        question = asked_of_catalog(query, service.readable(caller), caller.principal.name)
        try:
            return _with_catalog_types(typed(service.answered(question.asked, cancelled)), question.vectors)
        except EngineRefusal as refusal:
            raise without_place(refusal) from refusal
    return typed(service.execute(sql, caller, cancelled)[-1])


def _with_catalog_types(outcome: Outcome, vectors: Collection[str]) -> Outcome:
    """An answer from the catalog whose lists of numbers have the types that they have in PostgreSQL: the columns
    `vectors` are written without braces, those of a constraint are numbers of columns, the others are OIDs. asyncpg
    cannot read arrays of other types before it has asked the catalog about them."""
    named = zip(outcome.result.columns, outcome.types, strict=True)
    types = (_catalog_type(name, type_, vectors) if type_.oid == _BIGINTS else type_ for name, type_ in named)
    return replace(outcome, types=tuple(types))


def _catalog_type(name: str, listed: Type, vectors: Collection[str]) -> Type:
    if name in vectors:
        return INT2VECTOR
    return listed._replace(oid=ARRAYS[21 if name in ("conkey", "confkey") else 26])


def typed(result: StatementResult, transaction: bool | None = None) -> Outcome:
    """The outcome with this result."""
    if result.types:
        types = tuple(map(type_of, result.types))
    else:
        types = tuple(type_of_values([row[at] for row in result.rows]) for at in range(len(result.columns)))
    return Outcome(result, types, transaction)


def reads(sql: str) -> bool:
    """Whether a statement returns rows and changes nothing, so that it may be run to find out its columns.

    >>> reads("SELECT 1"), reads("INSERT INTO t VALUES (1)"), reads("BEGIN")
    (True, False, False)
    """
    return any(word in _READING for word in words(sql, 1))


def described_by(sql: str) -> str | None:
    """A statement that changes nothing and returns rows with the columns of this one; None if this one returns no rows.
    The rows of RETURNING have the columns of a SELECT over the table.

    >>> described_by("DELETE FROM t AS x WHERE k = 7 RETURNING x.k, 1 AS one")
    'SELECT x.k, 1 AS one FROM "t" AS "x" LIMIT 0'
    >>> described_by("SELECT k FROM t"), described_by("DELETE FROM t")
    ('SELECT k FROM t', None)
    """
    if reads(sql) or not gives_rows(sql):
        return sql if reads(sql) else None
    with suppress(SqlError):
        for statement in parse(sql):
            if isinstance(statement, st.Insert | st.Update | st.Delete | st.Merge) and statement.returning:
                alias = getattr(statement, "alias", None)  # INSERT has none
                table = exp.Table(this=exp.to_identifier(statement.table.text, quoted=True))
                shown = exp.alias_(table, alias or statement.table.text, quoted=True, table=True)
                return exp.select(*statement.returning).from_(shown).limit(0).sql(dialect=Dsms)
    return None


def gives_rows(sql: str) -> bool:
    """Whether a statement may return rows: it reads, it has RETURNING, or it reads a cursor."""
    return reads(sql) or "RETURNING" in sql.upper() or words(sql, 1) == ("FETCH",)


@dataclass(frozen=True)
class SqlFailure:
    """An error in PostgreSQL's terms: SQLSTATE, reason, hint, and the location in the statement, in characters from 1
    on."""

    code: str
    reason: str
    hint: str | None = None
    position: int | None = None

    def moved(self, offset: int) -> SqlFailure:
        """The same error in a script in which the statement begins after `offset` characters."""
        return self if self.position is None else replace(self, position=self.position + offset)


def refused(error: DsmsError, sql: str) -> SqlFailure:
    """An error of the coordinator in PostgreSQL's terms.

    >>> refused(SqlError("no such column", line=2, column=3, hint="have: a"), "SELECT\\n  b")
    SqlFailure(code='42601', reason='no such column', hint='have: a', position=10)
    """
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    if not isinstance(error, SqlError) or error.line is None or error.column is None:
        return SqlFailure(code, error.message, error.hint or None)
    reason = error.message.removeprefix(f"line {error.line}, column {error.column}: ")
    before = sum(len(line) + 1 for line in sql.split("\n")[: error.line - 1])
    return SqlFailure(code, reason, error.hint or None, before + error.column)
