"""Answers statements that PostgreSQL clients send on their own: transactions, settings, and queries about the server.
They need no coordinator."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dsms.coordinator.postgres.parameters import without_comments, words
from dsms.model.statement_result import StatementResult

#: The version of PostgreSQL that the server reports. Clients ask for it to know which features they may use.
VERSION = "15.0"
#: The settings that the server reports when a session begins, and on SHOW.
SETTINGS = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "off",
    "in_hot_standby": "off",
}
_SHOWN = {name.lower(): value for name, value in SETTINGS.items()} | {
    "transaction isolation level": "read committed",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "search_path": "public",
    "is_superuser": "off",
    "server_version_num": "150000",
}
_BEGIN = ("BEGIN", "START")
_END = ("COMMIT", "END", "ROLLBACK", "ABORT")
#: Statements without an effect here.
_IDLE = ("SET", "RESET", "DISCARD", "DEALLOCATE", "SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN", "CLOSE")
_NO_TRANSACTIONS = "there are no transactions: every statement takes effect at once, and ROLLBACK undoes nothing"
_FUNCTIONS = {
    "version": f"PostgreSQL {VERSION} (dsms)",
    "current_schema": "public",
    "current_database": "dsms",
    "current_catalog": "dsms",
    "pg_backend_pid": 1,
    "pg_is_in_recovery": False,
    "txid_current": 1,
}
_CALL = re.compile(r"select\s+(?:pg_catalog\s*\.\s*)?(\w+)\s*(?:\(\s*\))?(?:\s+as\s+\"?(\w+)\"?)?", re.IGNORECASE)
_SETTING = re.compile(
    r"select\s+(?:pg_catalog\s*\.\s*)?current_setting\(\s*'(\w+)'\s*(?:,\s*\w+\s*)?\)\s*(::\s*int\w*)?\s*(?:/\s*([1-9]\d*))?"
    r"(?:\s+as\s+\"?(\w+)\"?)?",
    re.IGNORECASE,
)


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
    return _function(sql, user) if first == "SELECT" else None


def _shown(name: str) -> BuiltinAnswer | None:
    value = _SHOWN.get(name)
    return None if value is None else BuiltinAnswer(_one(name.replace(" ", "_"), value))


def _function(sql: str, user: str) -> BuiltinAnswer | None:
    text = without_comments(sql).strip().rstrip(";")
    if (setting := _SETTING.fullmatch(text)) is not None:
        return _setting(*setting.groups())
    called = _CALL.fullmatch(text)
    if called is None:
        return None
    name = called[1].lower()
    known: dict[str, object] = {**_FUNCTIONS, "current_user": user, "session_user": user, "user": user}
    return BuiltinAnswer(_one(called[2] or name, known[name])) if name in known else None


def _setting(name: str, cast: str | None, divisor: str | None, alias: str | None) -> BuiltinAnswer | None:
    """The value of a setting, as a number if the client casts it to one, as Grafana does with `server_version_num`."""
    value: object = _SHOWN.get(name.lower())
    if value is None or ((cast or divisor) and not str(value).isdigit()):
        return None
    value = int(str(value)) // int(divisor or 1) if cast else value
    return BuiltinAnswer(_one(alias or "current_setting", value))


def _one(name: str, value: object) -> StatementResult:
    return StatementResult("SELECT", "1 row", (name,), ((value,),))
