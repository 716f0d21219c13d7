"""DROP: removes an object, and with CASCADE the objects that use it."""

from __future__ import annotations

from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Table
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
    name = cursor.name(f"{kind} name")
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
    if above and not statement.cascade:
        raise statement.name.place.error(
            f'{statement.kind} "{dropped.name}" is used by {names_for_caller(above, environment)}',
            "drop these first or add CASCADE",
        )
    filler = [dropped.filled_by] if isinstance(dropped, Table) and dropped.filled_by is not None else []
    names = [dropped.name, *filler, *(item.name for item in above)]
    remaining = catalog.without(names).without_comments(names)
    moved = moved_off(remaining, environment)
    after = remaining.with_changed(*moved) if moved else remaining
    return after, StatementResult("DROP", f"dropped {', '.join(names)}", name=dropped.name)


KIND = StatementKind(
    statement=Drop,
    starts={("DROP",): _parse},
    apply=_apply,
    changed_names=changes_named,
    words=(*KINDS, "CASCADE"),
)
