"""Runs statements: the one list of all kinds, and which function runs each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsms.coordinator.catalog.system_objects import refuse_reserved
from dsms.coordinator.statements.catalog_changes import change_catalog, drop, pause_or_resume, read_catalog
from dsms.coordinator.statements.context import StatementContext
from dsms.coordinator.statements.other_statements import answer_control, run_on_rows
from dsms.coordinator.statements.query_replacement import replace_query
from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.sql.parser.parse import parse

#: Runs one statement and gives its result; it raises, and has done nothing, or has done all that is to be kept.
Run = Callable[[Any, StatementContext], StatementResult]

#: A new kind of statement is a line here, and where none of these functions fits, a function in a file of its own.
RUNNERS: Mapping[type, Run] = {
    st.Show: read_catalog,
    st.Describe: read_catalog,
    st.Explain: read_catalog,
    st.RegisterSource: change_catalog,
    st.CreateStream: change_catalog,
    st.DeclareStream: change_catalog,
    st.CreateTable: change_catalog,
    st.ContinuousQuery: change_catalog,
    st.AlterQuery: change_catalog,
    st.SetPaused: pause_or_resume,
    st.Drop: drop,
    st.ReplaceQuery: replace_query,
    st.RepairQuery: replace_query,
    st.Select: run_on_rows,
    st.Insert: run_on_rows,
    st.Update: run_on_rows,
    st.Delete: run_on_rows,
    st.LoadFile: run_on_rows,
    st.LoadDatabase: run_on_rows,
    st.ShowEntities: answer_control,
    st.ShowExecutors: answer_control,
    st.ExplainAnalyze: answer_control,
    st.AlterExecutor: answer_control,
}


class StatementRunner:
    """Runs scripts, each in order. Those of several clients run side by side; what one statement changes, the next one
    of any client sees."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context

    def execute(self, sql: str) -> list[StatementResult]:
        """The results of the statements in order; a failing one raises, and those before it stay done."""
        return [self.run(statement) for statement in parse(sql)]

    def run(self, statement: st.Statement) -> StatementResult:
        """The result of one statement."""
        refuse_reserved(statement, self._context.store.catalog)
        return RUNNERS[type(statement)](statement, self._context)
