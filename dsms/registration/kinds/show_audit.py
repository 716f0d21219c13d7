"""SHOW AUDIT: its syntax. The coordinator reads the audit log."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.registration.statement_kind import StatementKind
from dsms.sql.parser.cursor import Cursor

_DEFAULT, _MOST = 100, 10_000


@dataclass(frozen=True, slots=True)
class ShowAudit(st.Statement):
    """`SHOW AUDIT [LIMIT n]`: the last entries of the audit log, the newest first."""

    sql: str
    limit: int = _DEFAULT


def _parse(cursor: Cursor, _: st.Name | None) -> ShowAudit:
    limit = _DEFAULT
    if cursor.accept("LIMIT"):
        text = cursor.next().text
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST):
            cursor.fail(
                f'"{text[:40]}" is not a valid number of entries', hint=f"give a whole number from 1 to {_MOST:,}"
            )
        limit = int(text)
    cursor.end()
    return ShowAudit(cursor.sql, limit)


KIND = StatementKind(
    statement=ShowAudit, starts={("SHOW", "AUDIT"): _parse}, subject="runtime", role="administrator", words=("LIMIT",)
)
