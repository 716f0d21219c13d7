"""SHOW EXECUTORS: the living executors with their settings."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.scheduling.tuning import BATCH_OPTIONS
from dsms.sql.parser.cursor import Cursor
from dsms.statements.context import Context, Entity
from dsms.statements.statement_kind import StatementKind

EXECUTORS = "EXECUTORS"
_COLUMNS = (
    "id",
    "state",
    "fragments",
    "batch records",
    "policy",
    "min",
    "max",
    "target s",
    "state memory",
    "in redis",
    "on disk only",
)


@dataclass(frozen=True, slots=True)
class ShowExecutors(st.Statement):
    """`SHOW EXECUTORS`."""

    sql: str


def parse_executors(cursor: Cursor) -> ShowExecutors:
    """The rest of the statement after its words."""
    cursor.end()
    return ShowExecutors(cursor.sql)


def _answer(statement: ShowExecutors, context: Context) -> StatementResult:
    rows = tuple(map(_row, context.executors()))
    return StatementResult("SHOW", f"{len(rows)} found", _COLUMNS, rows)


def _row(executor: Entity) -> tuple[object, ...]:
    settings = [executor.get(name) for name in ("policy", *BATCH_OPTIONS, "state_memory", "redis_bytes", "disk_bytes")]
    fragments = ", ".join(executor["fragments"])
    return (executor["id"], executor["state"], fragments, executor["batch_records"], *settings)


KIND = StatementKind(statement=ShowExecutors, answer=_answer, role="reader")
