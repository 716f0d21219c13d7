"""Runs statements, each by the function that its kind needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dsms.coordinator.catalog.system_objects import refuse_reserved
from dsms.coordinator.statements.catalog_changes import change_catalog, drop, pause_or_resume, read_catalog
from dsms.coordinator.statements.context import StatementContext
from dsms.coordinator.statements.other_statements import answer_control, run_on_rows
from dsms.coordinator.statements.query_replacement import replace_query
from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.registration.continuous import as_meant
from dsms.registration.kinds.drop import Drop
from dsms.registration.kinds.pause import SetPaused
from dsms.registration.statement_kind import StatementKind
from dsms.registration.statements import STATEMENTS, parse

#: Runs one statement and gives its result; it raises, and has done nothing, or has done all that is to be kept.
Run = Callable[[Any, StatementContext], StatementResult]

#: Statements about the catalog that may wait until executors follow what they change.
_AWAITED: Mapping[type[st.Statement], Run] = {
    SetPaused: pause_or_resume,
    Drop: drop,
    st.ReplaceQuery: replace_query,
    st.RepairQuery: replace_query,
}


def _runner(kind: StatementKind) -> Run:
    if kind.subject == "rows":
        return run_on_rows
    if kind.subject == "runtime":
        return answer_control
    return _AWAITED.get(kind.statement, read_catalog if kind.reads_only else change_catalog)


#: How each kind of statement is run.
RUNNERS: Mapping[type[st.Statement], Run] = {kind.statement: _runner(kind) for kind in STATEMENTS}


class StatementRunner:
    """Runs scripts, each in order. Those of several clients run side by side; what one statement changes, the next one
    of any client sees."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context

    def execute(self, sql: str, cancelled: threading.Event | None = None) -> list[StatementResult]:
        """The results of the statements in order; a failing one raises, and those before it stay done. A SELECT fails
        once it is cancelled."""
        context = replace(self._context, cancelled=cancelled) if cancelled else self._context
        return [_run(statement, context) for statement in parse(sql, context.limits)]


def _run(statement: st.Statement, context: StatementContext) -> StatementResult:
    statement = as_meant(statement, context.store.catalog)
    refuse_reserved(statement, context.store.catalog)
    return RUNNERS[type(statement)](statement, context)
