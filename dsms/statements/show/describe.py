"""DESCRIBE: the columns and the state of an object."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.types import type_sql
from dsms.registration.environment import Applied, Environment
from dsms.registration.object_columns import earlier_columns, schema_and_keys
from dsms.registration.query_settings import place_text, state_limit_text
from dsms.sql.parser.cursor import Cursor
from dsms.statements.object_kinds import KINDS
from dsms.statements.statement_kind import StatementKind, named

_COLUMNS = ("column", "type", "nullable", "key", "comment")


@dataclass(frozen=True, slots=True)
class Describe(st.Statement):
    """`DESCRIBE [kind] name`."""

    name: st.Name
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> Describe:
    return Describe(cursor.rest_as_name("name", optional=tuple(KINDS)), cursor.sql)


def _apply(statement: Describe, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find_any(statement.name.text, statement.name.place)
    schema, keys = schema_and_keys(item, catalog)
    comments = catalog.comments_on(item.name)
    rows = tuple(
        (field.name, type_sql(field.type), field.nullable, field.name in keys, comments.get(field.name))
        for field in schema
    )
    message = f'{kind_of(item)} "{item.name}": {environment.state_of(item)}{_settings(item)}{_promises(item)}'
    if "" in comments:
        message += f"; {comments['']}"
    notices = earlier_columns(item, catalog, environment.may_read)
    return catalog, StatementResult("DESCRIBE", message, _COLUMNS, rows, notices=notices, name=item.name)


def _settings(item: Object) -> str:
    """The weight of a query, the limit of its state, and where it runs."""
    if not isinstance(item, Query):
        return ""
    return f", weight {item.weight:g}{state_limit_text(item)}{'' if item.periodic else place_text(item)}"


def _promises(item: Object) -> str:
    """The constraints of a source, as DESCRIBE shows them."""
    promises = item.constraints if isinstance(item, Source) else ()
    return "".join(f", {promise.sql}" for promise in promises)


KIND = StatementKind(
    statement=Describe, starts={("DESCRIBE",): _parse}, apply=_apply, read_name=named, role="reader", words=tuple(KINDS)
)
