"""Runs statements that leave the catalog as it is: about rows, and about running entities."""

from __future__ import annotations

from dsms.coordinator.statements.context import StatementContext
from dsms.coordinator.statements.control_tables import ControlStatement
from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Load
from dsms.registration.kinds.replay import Replay
from dsms.tables.statements import Write


def run_on_rows(statement: st.Select | Write | Load, context: StatementContext) -> StatementResult:
    """Reads or writes rows. Raises ExternalError at once while Kafka is unavailable."""
    context.store.check()
    context.store.settle()
    return context.tables.run(statement, context.caller.principal, context.cancelled)


def replay(statement: Replay, context: StatementContext) -> StatementResult:
    """Writes refused records to their topic again."""
    context.store.settle()
    return context.replays.run(statement, context.caller.principal, context.cancelled)


def answer_control(statement: ControlStatement, context: StatementContext) -> StatementResult:
    """Shows running entities, or changes the bounds of an executor."""
    context.store.try_settle()
    return context.control.answer(statement, context.caller.principal)
