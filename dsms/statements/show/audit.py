"""SHOW AUDIT: the last entries of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dsms.model import statements as st
from dsms.model.audit_entry import AuditEntry
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind

_DEFAULT, _MOST = 100, 10_000
_COLUMNS = ("at", "token", "role", "event", "what", "outcome", "seconds", "request", "more")


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


def _answer(statement: ShowAudit, context: Context) -> StatementResult:
    return audit_rows(context.audit_entries(statement.limit))


def audit_rows(entries: Sequence[AuditEntry]) -> StatementResult:
    """The entries as rows. `more` is the number of refused calls before an entry that have no entry of their own.

    >>> audit_rows([AuditEntry(0, "ann", "writer", "r1", "done", "DROP VIEW v")]).rows
    (('1970-01-01T00:00:00.000+00:00', 'ann', 'writer', 'done', 'DROP VIEW v', '', 0.0, 'r1', 0),)
    """
    rows = tuple(
        (
            _text(each.at),
            each.who,
            each.role,
            each.event,
            each.what,
            each.outcome,
            each.seconds,
            each.request,
            each.more,
        )
        for each in entries
    )
    return StatementResult("SHOW", f"{len(rows)} found", _COLUMNS, rows)


def _text(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")


KIND = StatementKind(
    statement=ShowAudit, starts={("SHOW", "AUDIT"): _parse}, answer=_answer, role="administrator", words=("LIMIT",)
)
