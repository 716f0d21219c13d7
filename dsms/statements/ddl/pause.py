"""PAUSE and RESUME: stop a query, and let it continue."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.registration.query_settings import named_query
from dsms.sql.parser.cursor import Cursor
from dsms.statements.statement_kind import StatementKind, changes_named


@dataclass(frozen=True, slots=True)
class SetPaused(st.Statement):
    """`PAUSE | DEACTIVATE [QUERY | VIEW] name`, `RESUME | ACTIVATE [QUERY | VIEW] name`."""

    name: st.Name
    paused: bool
    sql: str


def _pause(cursor: Cursor, _: st.Name | None) -> SetPaused:
    return SetPaused(_query_name(cursor), True, cursor.sql)


def _resume(cursor: Cursor, _: st.Name | None) -> SetPaused:
    return SetPaused(_query_name(cursor), False, cursor.sql)


def _query_name(cursor: Cursor) -> st.Name:
    return cursor.rest_as_name("query name", optional=("QUERY", "VIEW"))


def _apply(statement: SetPaused, catalog: Catalog, environment: Environment) -> Applied:
    """Idempotent. The query leaves its family, because a single member of a family cannot be paused: the members'
    state is shared."""
    query = named_query(catalog, statement.name)
    verb, now = ("PAUSE", "paused") if statement.paused else ("RESUME", "resumed")
    if query.paused == statement.paused:
        return catalog, StatementResult(verb, f'{query.kind} "{query.name}" is already {now}', name=query.name)
    changed = msgspec.structs.replace(query, paused=statement.paused, grouped=False)
    return catalog.with_changed(changed), StatementResult(verb, f'{query.kind} "{query.name}" {now}', name=query.name)


KIND = StatementKind(
    statement=SetPaused,
    starts={("PAUSE",): _pause, ("DEACTIVATE",): _pause, ("RESUME",): _resume, ("ACTIVATE",): _resume},
    apply=_apply,
    changed_names=changes_named,
    words=("QUERY", "VIEW"),
)
