"""A stand-in for the processes in which one-time queries run: DuckDB answers in the process of the simulation."""

from __future__ import annotations

import dsms.tables.database
import dsms.tables.engine_functions  # noqa: F401 (both must be imported before a simulation runs)
from dsms.tables.one_time import evaluate
from dsms.tables.one_time_query import OneTimeQueryWithRows
from dsms.tables.select_budget import Budget
from dsms.tables.select_process import Form, Reply
from dsms.tables.select_wire import WorkerLimits, stream_of
from operators.core.errors import UserError


class AnswersHere:
    """Takes the place of a `SelectProcess`. An answer takes no virtual time."""

    alive = reusable = True
    pid = 0

    def __init__(self, limits: WorkerLimits) -> None:
        pass

    def kill(self) -> None:
        """Does nothing: there is no process."""

    def ask(self, asked: OneTimeQueryWithRows, form: Form, budget: Budget) -> Reply:
        """The answer to a query of a statement that writes a table. Raises UserError for other queries."""
        if form != "arrow":
            raise UserError("one-time SELECTs are not simulated", hint="read the topic of the view")
        rows = evaluate(asked)
        return Reply(tuple(rows.column_names), rows.num_rows, bytearray(stream_of(rows)))
