"""ALTER QUERY and ALTER VIEW: set the options of a query that may change while it runs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.statement_result import StatementResult
from dsms.registration.clauses import result_settings
from dsms.registration.division import (
    check_divisible,
    check_fragment,
    moved_to,
    with_dead_letter_writers,
    with_fragments,
)
from dsms.registration.environment import Applied, Environment
from dsms.registration.join_orders import with_next_order
from dsms.registration.next_plans import check_can_begin
from dsms.registration.query_settings import fragments_text, join_order_text, named_query, place_text, state_limit_text
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor
from dsms.statements.ddl.alter_executor import AlterExecutor, parse_alter_executor
from dsms.statements.statement_kind import Halt, StatementKind, named

_OPTIONS = ("WEIGHT", "STATE_MEMORY", "FRAGMENTS", "FRAGMENT", "JOIN_ORDER")


@dataclass(frozen=True, slots=True)
class AlterQuery(st.Statement):
    """`ALTER QUERY | VIEW name SET (option = value, …)`."""

    name: st.Name
    clauses: tuple[st.Clause, ...]
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> AlterQuery | AlterExecutor:
    """`ALTER QUERY | VIEW name SET (weight = 2.5, fragments = 4, …)`, `ALTER EXECUTOR name SET (policy = chain)`."""
    if cursor.one_of(("QUERY", "VIEW", "EXECUTOR"), "kind") == "EXECUTOR":
        return parse_alter_executor(cursor)
    name = cursor.name("query name")
    if cursor.peeks("RENAME"):
        cursor.fail("RENAME is not supported", f"CREATE VIEW new_name AS SELECT * FROM {name.text}")
    cursor.expect("SET")
    clauses = queries.options(cursor, _OPTIONS)
    cursor.end()
    return AlterQuery(name, clauses, cursor.sql)


def _apply(statement: AlterQuery, catalog: Catalog, environment: Environment) -> Applied:
    query, settings = named_query(catalog, statement.name), result_settings(statement.clauses)
    count, orders = settings.pop("fragments", None), settings.get("next_join_orders")
    fragment = settings.pop("fragment", None)
    changed = msgspec.structs.replace(query, **settings)
    if isinstance(fragment, str):
        check_fragment(fragment, environment, divided=count is not None)
        changed = moved_to(fragment, changed, catalog, environment)
    if isinstance(orders, tuple):
        changed = with_next_order(changed, orders, catalog)
        check_can_begin(changed, catalog, environment)
    if isinstance(count, int):
        changes_fragments = count != len(query.fragments) or bool(query.links)
        changed = (
            with_fragments(count, changed, catalog, environment)
            if changes_fragments
            else msgspec.structs.replace(changed, halted=False)
        )
    if changed.fragments_by_load and not query.fragments_by_load:
        check_divisible(changed, plan_of(query.name, catalog))
    place = place_text(changed) if isinstance(fragment, str) else ""
    details = f"{place}{state_limit_text(changed)}{fragments_text(changed)}{join_order_text(changed)}"
    message = f'{query.kind} "{query.name}" has weight {changed.weight:g}{details}'
    if changed == query:
        return catalog, StatementResult("ALTER", message, name=query.name)
    return with_dead_letter_writers(changed, catalog.with_changed(changed)), StatementResult(
        "ALTER", message, name=query.name
    )


def _halts(statement: AlterQuery, catalog: Catalog) -> Halt:
    """To change its fragments, the query is halted first; other options take effect at once."""
    query, settings = catalog.get(statement.name.text), result_settings(statement.clauses)
    if not isinstance(query, Query):
        return Halt()
    moves = "fragments" in settings or settings.get("fragment", query.fragment) != query.fragment
    return Halt((query,), moves=True) if moves else Halt()


KIND = StatementKind(
    statement=AlterQuery,
    starts={("ALTER",): _parse},
    apply=_apply,
    halts=_halts,
    changed_name=named,
    words=("QUERY", "VIEW", "SET", "WEIGHT"),
)
