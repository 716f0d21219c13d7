"""ALTER EXECUTOR: changes the batch sizes, the limit of state and the scheduling policy of an executor."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.statement_result import StatementResult
from dsms.scheduling.tuning import BATCH_OPTIONS, read_option
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.statements.context import Context
from dsms.statements.statement_kind import StatementKind

_CLAUSES = ("POLICY", *map(str.upper, BATCH_OPTIONS), "STATE_MEMORY")


@dataclass(frozen=True, slots=True)
class AlterExecutor(st.Statement):
    """`ALTER EXECUTOR name SET (option = value, …)`, `ALTER EXECUTOR name SET POLICY 'chain'`."""

    name: st.Name
    clauses: tuple[st.Clause, ...]
    sql: str


def parse_alter_executor(cursor: Cursor) -> AlterExecutor:
    """The rest of the statement. A single option may be written without parentheses: `SET POLICY 'chain'`."""
    name = cursor.name("executor name")
    cursor.expect("SET")
    if cursor.peeks("("):
        clauses = queries.options(cursor, _CLAUSES)
    else:
        token = cursor.peek()
        option = cursor.one_of(_CLAUSES, "option").lower()
        cursor.accept("=")
        clauses = (st.Clause(option, (cursor.next().text,), place_of(token)),)
    cursor.end()
    return AlterExecutor(name, clauses, cursor.sql)


def _answer(statement: AlterExecutor, context: Context) -> StatementResult:
    wanted = {clause.name: read_option(clause.name, clause.words[0]) for clause in statement.clauses}
    context.set_executor(statement.name.text, wanted)
    options = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    return StatementResult("ALTER", f'executor "{statement.name.text}" has {options} from the next batch on')


# an executor runs queries of all users
KIND = StatementKind(statement=AlterExecutor, answer=_answer, role="administrator")
