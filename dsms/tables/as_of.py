"""`FROM v AS OF TIMESTAMP '…'` in a one-time SELECT: the instant at which it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from dsms.model.instants import instant_of
from dsms.model.position import error_at

#: Without the S of the plural, which also MS loses.
_UNIT_MS: Final = {"M": 1, "MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_AT_PRESENT = "leave it out: INSERT, UPDATE, DELETE and MERGE read the present"
_HINT = "write AS OF TIMESTAMP '2026-05-01 12:00:00', AS OF now() - INTERVAL '5' MINUTE, or AS OF a number"


def take_instant(tables: Sequence[exp.Table]) -> int | None:
    """The instant that the tables of a query name, which is removed from them; None if they name none. Raises SqlError
    if they name several, or only some name one: a SELECT is answered at one instant.

    >>> import sqlglot
    >>> from dsms.sql.parser.dialect import Dsms
    >>> query = sqlglot.parse_one("SELECT * FROM v AS OF TIMESTAMP '1970-01-01 00:00:01' AS x", dialect=Dsms)
    >>> take_instant([query.find(exp.Table)]), query.this.sql()
    (1000, 'SELECT * FROM v AS x')
    """
    versions = [version for table in tables if (version := table.args.get("version")) is not None]
    instants = [_instant(version) for version in versions]
    for version, instant in zip(versions, instants, strict=True):
        if instant != instants[0] or len(versions) < len(tables):
            raise error_at(version, "a SELECT has one instant: write the same AS OF after each name in FROM, or none")
    for table in tables:
        table.set("version", None)
    return instants[0] if instants else None


def refuse_instants(query: exp.Expr) -> None:
    """Raises SqlError for a query with AS OF that reads the present."""
    for table in query.find_all(exp.Table):
        if (version := table.args.get("version")) is not None:
            raise error_at(version, "AS OF is supported in a SELECT that runs once only", hint=_AT_PRESENT)


def _instant(version: exp.Expr) -> int | None:
    """The instant of AS OF; None for NULL, which stands for a parameter whose value is not known yet."""
    if version.args.get("kind") != "AS OF" or version.name != "TIMESTAMP":
        raise error_at(version, "of the forms of FOR SYSTEM_TIME only AS OF is supported", hint=_HINT)
    if isinstance(version.expression, exp.Null):
        return None
    instant = _value(version.expression)
    if instant is None:
        raise error_at(version, "AS OF needs an instant", hint=_HINT)
    return instant


def _value(node: exp.Expr) -> int | None:
    """The instant that an expression of constants denotes; None for any other."""
    match node:
        case exp.Paren():
            return _value(node.this)
        case exp.Neg() if (value := _value(node.this)) is not None:
            return -value
        case exp.Literal():
            return instant_of(str(node.this), up=False)
        case exp.Cast() if node.to.is_type("timestamp", "timestamptz", "date") and isinstance(node.this, exp.Literal):
            return instant_of(str(node.this.this), up=False)
        case exp.Add() | exp.Sub():
            start, length = _value(node.left), _length(node.right)
            sign = 1 if isinstance(node, exp.Add) else -1
            return None if start is None or length is None else start + sign * length
        case _:
            return None


def _length(node: exp.Expr) -> int | None:
    """The milliseconds of an interval; None for any other expression, and for months."""
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = _UNIT_MS.get(str(node.args.get("unit") or "").upper().removesuffix("S"))
    return int(node.name) * unit if unit is not None and node.name.isdecimal() else None
