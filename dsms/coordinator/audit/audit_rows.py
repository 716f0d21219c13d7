"""Entries of the audit log as rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from dsms.coordinator.audit.audit_log import AuditEntry
from dsms.model.statement_result import StatementResult

_COLUMNS = ("at", "token", "role", "event", "what", "outcome", "seconds", "request", "more")


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
