"""SHOW ALARMS: records and values that were ignored as invalid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from connectors.alarms import Alarm
from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind


@dataclass(frozen=True, slots=True)
class ShowAlarms(st.Statement):
    """`SHOW ALARMS`: records and values that were read from logs and from Redis and ignored as invalid."""

    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> ShowAlarms:
    cursor.end()
    return ShowAlarms(cursor.sql)


def _answer(statement: ShowAlarms, context: Context) -> StatementResult:
    return shown_alarms(context.alarms())


def shown_alarms(alarms: Iterable[Alarm]) -> StatementResult:
    """The alarms as rows.

    >>> shown_alarms([Alarm("_dsms.local.shed", "empty", 0, 3, 8, 2)]).rows
    (('_dsms.local.shed', 0, 3, 8, 2, 'empty'),)
    """
    rows = tuple((alarm.place, alarm.partition, alarm.first, alarm.last, alarm.count, alarm.reason) for alarm in alarms)
    columns = ("place", "partition", "first offset", "last offset", "count", "reason")
    return StatementResult("SHOW", f"{len(rows)} found", columns, rows)


KIND = StatementKind(statement=ShowAlarms, starts={("SHOW", "ALARMS"): _parse}, answer=_answer, role="reader")
