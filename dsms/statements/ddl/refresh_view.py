"""REFRESH MATERIALIZED VIEW, which does nothing: views are always up to date."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.cursor import Cursor
from dsms.statements.statement_kind import StatementKind, named

_NOTICE = "views are updated continuously; no refresh is needed"


@dataclass(frozen=True, slots=True)
class RefreshView(st.Statement):
    """`REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH DATA]`."""

    name: st.Name
    sql: str


def _refresh(cursor: Cursor, _: st.Name | None) -> RefreshView:
    cursor.accept("CONCURRENTLY")
    name = cursor.object_name("view")
    cursor.accept("WITH", "DATA")
    cursor.end()
    return RefreshView(name, cursor.sql)


def _apply(statement: RefreshView, catalog: Catalog, environment: Environment) -> Applied:
    item = catalog.find(statement.name.text, statement.name.place)
    if not isinstance(item, Query) or item.kind != "view":
        raise statement.name.place.error(f'"{item.name}" is a {kind_of(item)}, not a view')
    return catalog, StatementResult("REFRESH MATERIALIZED VIEW", "nothing was done", notices=(_NOTICE,), name=item.name)


KIND = StatementKind(
    statement=RefreshView,
    starts={("REFRESH", "MATERIALIZED", "VIEW"): _refresh},
    apply=_apply,
    read_name=named,
    role="reader",
)
