"""ALTER QUERY and ALTER VIEW: set the options of a query that may change while it runs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import JoinOrders, Query
from dsms.model.statement_result import StatementResult
from dsms.registration.clauses import result_settings
from dsms.registration.division import check_divisible, check_fragment, with_dead_letter_writers, with_fragments
from dsms.registration.environment import Applied, Environment
from dsms.registration.join_orders import with_next_order
from dsms.registration.moves import halted_by_move, moved_to
from dsms.registration.next_plans import check_can_begin
from dsms.registration.query_settings import fragments_text, join_order_text, named_query, place_text, state_limit_text
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor
from dsms.statements.ddl.alter_executor import AlterExecutor, parse_alter_executor
from dsms.statements.ddl.rename import Rename, parse_rename, parse_set_schema
from dsms.statements.object_kinds import KINDS, kind_word
from dsms.statements.statement_kind import Halt, StatementKind

_NEW_FUNCTION = "create it again with the new name, CREATE OR REPLACE what calls it, and DROP the old one"
_OPTIONS = ("WEIGHT", "STATE_MEMORY", "FRAGMENTS", "FRAGMENT", "JOIN_ORDER")
#: The other options of CREATE: what consumers know of the result, what determines the results, and how exact they are.
_KNOWN = ("TOPIC", "FORMAT", "PARTITIONS", "ERROR_COLUMNS")
_DETERMINING = ("START", "SHARED", "MAX_ERROR", "MAX_LOSS", "DEADLINE", "SHED_WHERE", "MEMORY")
_INEXACT = ("MAX_ERROR", "MAX_LOSS", "DEADLINE", "ERROR_COLUMNS", "SHED_WHERE", "MEMORY")


@dataclass(frozen=True, slots=True)
class AlterQuery(st.Statement):
    """`ALTER QUERY | VIEW name, … SET (option = value, …)`."""

    names: tuple[st.Name, ...]
    clauses: tuple[st.Clause, ...]
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> AlterQuery | AlterExecutor | Rename:
    """`ALTER QUERY | VIEW name, … SET (weight = 2.5, fragments = 4, …)`, `ALTER QUERY | VIEW name RENAME TO new`,
    `ALTER EXECUTOR name SET (policy = chain)`."""
    if cursor.peeks("EXECUTOR"):
        cursor.next()
        return parse_alter_executor(cursor)
    if any(cursor.accept(kind) for kind in ("FUNCTION", "AGGREGATE")):
        cursor.fail("functions and aggregates cannot be altered", _NEW_FUNCTION)
    kind = KINDS[kind_word(cursor, ("QUERY", "VIEW", "SUMMARY"))]
    names = [cursor.object_name("query name")]
    if cursor.accept("RENAME"):
        return parse_rename(cursor, kind, names[0])
    if cursor.accept("SET", "SCHEMA"):
        return parse_set_schema(cursor, kind, names[0])
    if cursor.peeks("ADD") or cursor.peeks("DROP"):
        cursor.fail(f"the columns of a {kind} are those of its SELECT", f"DROP {kind.upper()}, and create it again")
    while cursor.accept(","):
        names.append(cursor.object_name("query name"))
    cursor.expect("SET")
    clauses = queries.options(cursor, _OPTIONS, _refused(kind, names[0]))
    cursor.end()
    return AlterQuery(tuple(names), clauses, cursor.sql)


def _refused(kind: st.Kind, name: st.Name) -> dict[str, tuple[str, str]]:
    """Why ALTER does not change the other options of CREATE, and what to write instead."""
    texts: dict[tuple[str, ...], tuple[str, str]] = {}
    texts[_KNOWN] = ("cannot change: consumers of the result rely on it", f"create another {kind} with it")
    again = f"CREATE OR REPLACE {kind.upper()} {name.text} WITH ({{option}} = …) AS …"
    texts[_DETERMINING] = ("needs a replacement: the results or their operators depend on it", again)
    if kind == "view":
        texts[_INEXACT] = ("needs a query: readers of a view expect exact results", "use CREATE QUERY …")
    return {
        option: (f"{option} {why}", hint.replace("{option}", option))
        for options, (why, hint) in texts.items()
        for option in options
    }


def _apply(statement: AlterQuery, catalog: Catalog, environment: Environment) -> Applied:
    """Changes the queries together: queries that move to one fragment keep what they share."""
    settings = result_settings(statement.clauses)
    before = {(query := named_query(catalog, name)).id: query for name in statement.names}
    count, fragment = settings.pop("fragments", None), settings.pop("fragment", None)
    changed = [msgspec.structs.replace(query, **settings) for query in before.values()]
    readers: list[Query] = []
    if isinstance(fragment, str):
        check_fragment(fragment, environment, divided=count is not None)
        all_changed = {query.id: query for query in moved_to(fragment, changed, catalog, environment)}
        changed = [all_changed.pop(query.id) for query in changed]
        readers = list(all_changed.values())
    if isinstance(orders := settings.get("next_join_orders"), tuple):
        changed = [_with_next_order(query, orders, catalog, environment) for query in changed]
    if isinstance(count, int):
        changed = [_with_fragments(count, query, before[query.id], catalog, environment) for query in changed]
    for query in changed:
        if query.fragments_by_load and not before[query.id].fragments_by_load:
            check_divisible(query, plan_of(query.name, catalog))
    messages = "; ".join(_message(query, moved=isinstance(fragment, str)) for query in changed)
    result = StatementResult("ALTER", messages, name=changed[0].name)
    if changed == [*before.values()]:
        return catalog, result
    after = catalog.with_changed(*changed, *readers)
    for query in changed:
        after = with_dead_letter_writers(query, after)
    return after, result


def _with_next_order(query: Query, orders: JoinOrders, catalog: Catalog, environment: Environment) -> Query:
    after = with_next_order(query, orders, catalog)
    check_can_begin(after, catalog, environment)
    return after


def _with_fragments(count: int, query: Query, before: Query, catalog: Catalog, environment: Environment) -> Query:
    if count == len(before.fragments) and not before.links:
        return msgspec.structs.replace(query, halted=False)
    return with_fragments(count, query, catalog, environment)


def _message(query: Query, *, moved: bool) -> str:
    place = place_text(query) if moved else ""
    details = f"{place}{state_limit_text(query)}{fragments_text(query)}{join_order_text(query)}"
    return f'{query.kind} "{query.name}" has weight {query.weight:g}{details}'


def _halts(statement: AlterQuery, catalog: Catalog) -> Halt:
    """To change their fragments, the queries are halted first; other options take effect at once."""
    settings = result_settings(statement.clauses)
    named = (catalog.get(name.text) for name in statement.names)
    queries = {query.id: query for query in named if isinstance(query, Query)}
    moving = list(queries.values()) if "fragments" in settings else []
    if isinstance(fragment := settings.get("fragment"), str):
        moving = halted_by_move(fragment, [*queries.values()], catalog)
    return Halt(tuple(moving), moves=True) if moving else Halt()


KIND = StatementKind(
    statement=AlterQuery,
    starts={("ALTER",): _parse},
    apply=_apply,
    halts=_halts,
    changed_names=lambda statement: statement.names,
    words=("QUERY", "VIEW", "SET", "WEIGHT", "RENAME"),
)
