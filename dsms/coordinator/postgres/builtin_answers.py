"""Answers statements that PostgreSQL clients send on their own: transactions, settings, and queries about the server.
They need no coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from dsms.coordinator.postgres.catalog_rewriting import output_name
from dsms.coordinator.postgres.parameters import without_comments, words
from dsms.coordinator.postgres.session_values import SHOWN, session_value
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.sqlglot_errors import readable_sqlglot_errors
from operators.core.errors import SqlError

_BEGIN = ("BEGIN", "START")
_END = ("COMMIT", "END", "ROLLBACK", "ABORT")
#: Statements without an effect here.
_IDLE = ("SET", "RESET", "DISCARD", "DEALLOCATE", "SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN", "CLOSE")
_NO_TRANSACTIONS = "there are no transactions: every statement takes effect at once, and ROLLBACK undoes nothing"


@dataclass(frozen=True)
class BuiltinAnswer:
    """The result of a statement that is answered without the coordinator. `transaction`: whether the client regards
    itself as inside a transaction afterwards; None: as before."""

    result: StatementResult
    transaction: bool | None = None


def builtin_answer(sql: str, user: str) -> BuiltinAnswer | None:
    """The answer to a statement that clients send on their own; None for any other.

    >>> builtin_answer("SELECT pg_catalog.version()", "ann").result.rows
    (('PostgreSQL 15.0 (dsms)',),)
    >>> builtin_answer("BEGIN", "ann").transaction, builtin_answer("SET x TO 1", "ann").result.statement
    (True, 'SET')
    """
    first, *rest = words(sql) or ("",)
    if first in _BEGIN and (not rest or rest[0] in ("TRANSACTION", "WORK", "ISOLATION", "READ", "DEFERRABLE")):
        return BuiltinAnswer(StatementResult("BEGIN", "", notices=(_NO_TRANSACTIONS,)), transaction=True)
    if first in _END and "PREPARED" not in rest:
        tag = "ROLLBACK" if first in ("ROLLBACK", "ABORT") else "COMMIT"
        inside = bool(rest) and rest[0] == "TO"
        return BuiltinAnswer(StatementResult(tag, ""), transaction=None if inside else False)
    if first in _IDLE:
        return BuiltinAnswer(StatementResult(first, ""))
    if first == "SHOW":
        return _shown(without_comments(sql).strip()[4:].strip().rstrip(";").lower())
    return _session_values(sql, user) if first == "SELECT" else None


def _shown(name: str) -> BuiltinAnswer | None:
    if name == "all":
        rows = tuple((known, SHOWN[known], None) for known in sorted(SHOWN))
        return BuiltinAnswer(StatementResult("SHOW", f"{len(rows)} rows", ("name", "setting", "description"), rows))
    value = SHOWN.get(name)
    return None if value is None else BuiltinAnswer(_row({name.replace(" ", "_"): value}))


def _session_values(sql: str, user: str) -> BuiltinAnswer | None:
    """The answer to a SELECT without FROM that asks only for values of the session."""
    if "FROM" in sql.upper():
        return None
    with suppress(SqlError), readable_sqlglot_errors():
        query = sqlglot.parse_one(sql, dialect="postgres")
        if isinstance(query, exp.Select) and query.expressions and not _more_than_projections(query):
            values = {output_name(each): _value(each.unalias(), user) for each in query.expressions}
            if None not in values.values() and len(values) == len(query.expressions):
                return BuiltinAnswer(_row(values))
    return None


def _more_than_projections(query: exp.Select) -> bool:
    return any(value for name, value in query.args.items() if name not in ("expressions", "kind"))


def _value(node: exp.Expr, user: str) -> object | None:
    """The value of the session that an expression names. It may be cast to a number and divided, as Grafana does with
    `server_version_num`. None for any other expression."""
    match node:
        case exp.Dot() if node.this.name.lower() == "pg_catalog":
            return _value(node.expression, user)
        case exp.Cast() if node.to.is_type(*exp.DataType.INTEGER_TYPES):
            text = str(_value(node.this, user))
            return int(text) if text.isdigit() else None
        case exp.Div() if node.expression.is_int and node.expression.to_py():
            number = _value(node.this, user)
            return number // int(node.expression.to_py()) if isinstance(number, int) else None
        case _:
            value = session_value(node, user)
            return None if value is None else value.to_py()


def _row(values: Mapping[str, object]) -> StatementResult:
    return StatementResult("SELECT", "1 row", tuple(values), (tuple(values.values()),))
