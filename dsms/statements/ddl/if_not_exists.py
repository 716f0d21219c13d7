"""CREATE … IF NOT EXISTS, which becomes a CREATE or a statement that does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.statements.statement_kind import StatementKind, changes_named


@dataclass(frozen=True, slots=True)
class AlreadyExists(st.Statement):
    """A statement whose object exists."""

    name: st.Name
    sql: str


def _resolve(statement: st.IfNotExists, catalog: Catalog) -> st.Statement:
    """The CREATE statement, or AlreadyExists if the catalog has an object of that name."""
    if catalog.get(statement.name.text) is None:
        return statement.statement
    return AlreadyExists(statement.name, statement.sql)


def _apply(statement: AlreadyExists, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    message = f'{kind_of(item)} "{item.name}" already exists; nothing was done'
    return catalog, StatementResult("CREATE", message, name=item.name)


KINDS = (
    StatementKind(statement=st.IfNotExists, resolve=_resolve, changed_names=changes_named),
    StatementKind(statement=AlreadyExists, apply=_apply, changed_names=changes_named),
)
