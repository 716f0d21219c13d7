"""SHOW CREATE: the statement that created an object."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import kind_of, shown_sql
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.registration.object_columns import earlier_columns
from dsms.sql.parser.cursor import Cursor
from dsms.statements.ddl.comment import comment_statements
from dsms.statements.ddl.create_index import index_statements
from dsms.statements.object_kinds import KINDS
from dsms.statements.statement_kind import StatementKind, named


@dataclass(frozen=True, slots=True)
class ShowCreate(st.Statement):
    """`SHOW CREATE [kind] name`."""

    name: st.Name
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> ShowCreate:
    return ShowCreate(cursor.rest_as_name("name", optional=tuple(KINDS)), cursor.sql)


def _apply(statement: ShowCreate, catalog: Catalog, environment: Environment) -> Applied:
    """The text of the statement as it was written, or for a replaced query that of the last replacement, and the
    statements that set its comments."""
    item = catalog.find_any(statement.name.text, statement.name.place)
    message = f'statement that created {kind_of(item)} "{item.name}"'
    text = ";\n".join([shown_sql(item), *comment_statements(item, catalog), *index_statements(item, catalog)])
    notices = earlier_columns(item, catalog, environment.may_read)
    rows = ((item.name, text),)
    return catalog, StatementResult("SHOW CREATE", message, ("name", "sql"), rows, notices=notices, name=item.name)


KIND = StatementKind(
    statement=ShowCreate,
    starts={("SHOW", "CREATE"): _parse},
    apply=_apply,
    read_name=named,
    role="reader",
    words=tuple(KINDS),
)
