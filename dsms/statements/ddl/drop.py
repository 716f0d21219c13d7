"""DROP: removes an object, and with CASCADE the objects that use it."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Table
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment, names_for_caller
from dsms.registration.view_matching import moved_off
from dsms.sql.binder.dependencies import dependents
from dsms.sql.parser.cursor import Cursor
from dsms.statements.object_kinds import KINDS, check_kind, kind_word
from dsms.statements.statement_kind import StatementKind, changes_named


@dataclass(frozen=True, slots=True)
class Drop(st.Statement):
    """`DROP kind [IF EXISTS] name [CASCADE]`."""

    kind: st.Kind
    name: st.Name
    if_exists: bool
    cascade: bool
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> Drop:
    kind = KINDS[kind_word(cursor, KINDS)]
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.object_name(f"{kind} name")
    if kind == "aggregate":
        cursor.accept("(", ")")
        name = st.Name(f"{name.text.lower()}()", name.place)
    cascade = cursor.accept("CASCADE")
    cursor.end()
    return Drop(kind, name, if_exists, cascade, cursor.sql)


def _apply(statement: Drop, catalog: Catalog, environment: Environment) -> Applied:
    dropped = catalog.get(statement.name.text)
    if dropped is None and statement.if_exists:
        return catalog, StatementResult("DROP", f'{statement.kind} "{statement.name.text}" does not exist')
    dropped = catalog.find(statement.name.text, statement.name.place)
    check_kind(statement.name, statement.kind, dropped)
    above = dependents(catalog, dropped)
    names = [*names_dropped_with(dropped), *(item.name for item in above)]
    ended = catalog.sinks_of(names)
    sinks = [f"sink {sink.name}" for sink in ended]
    if (above or sinks) and not statement.cascade:
        users = [*([names_for_caller(above, environment)] if above else []), *sinks]
        raise statement.name.place.error(
            f'{statement.kind} "{dropped.name}" is used by {", ".join(users)}', "drop these first or add CASCADE"
        )
    after = without_objects(catalog, names, environment)
    return after, StatementResult("DROP", f"dropped {', '.join([*names, *sinks])}", name=dropped.name)


def names_dropped_with(item: Object) -> list[str]:
    """The name of an object, and that of the query that fills it if it is such a table."""
    return [item.name, item.filled_by] if isinstance(item, Table) and item.filled_by is not None else [item.name]


def without_objects(catalog: Catalog, names: list[str], environment: Environment) -> Catalog:
    """The catalog without objects that nothing else needs, and without their comments, indexes and sinks."""
    ended = catalog.sinks_of(names)
    remaining = catalog.without(names).without_comments_and_indexes(names).without_sinks(ended)
    moved = moved_off(remaining, environment)
    return remaining.with_changed(*moved) if moved else remaining


KIND = StatementKind(
    statement=Drop,
    starts={("DROP",): _parse},
    apply=_apply,
    changed_names=changes_named,
    words=(*KINDS, "CASCADE"),
)
