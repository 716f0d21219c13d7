"""Entries of the audit log as rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from dsms.coordinator.audit.audit_log import Act
from dsms.model.statement_result import StatementResult

_COLUMNS = ("at", "token", "role", "event", "what", "outcome", "seconds", "request", "more")


def shown_acts(acts: Sequence[Act]) -> StatementResult:
    """The entries as rows. `more` is the number of refused calls before an entry that have no entry of their own.

    >>> shown_acts([Act(0, "ann", "writer", "r1", "done", "DROP VIEW v")]).rows
    (('1970-01-01T00:00:00.000+00:00', 'ann', 'writer', 'done', 'DROP VIEW v', '', 0.0, 'r1', 0),)
    """
    rows = tuple(
        (_text(act.at), act.who, act.role, act.event, act.what, act.outcome, act.seconds, act.request, act.more)
        for act in acts
    )
    return StatementResult("SHOW", f"{len(rows)} found", _COLUMNS, rows)


def _text(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
