"""SHOW SOURCES, STREAMS, TABLES, VIEWS and QUERIES: the objects of a kind, with their states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Stream, kind_of
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.cursor import Cursor
from dsms.statements.show.entities import ENTITIES, ShowEntities, parse_entities
from dsms.statements.show.executors import EXECUTORS, ShowExecutors, parse_executors
from dsms.statements.show.schemas import SCHEMAS, ShowSchemas, parse_schemas
from dsms.statements.show.subplans import SUBPLANS, ShowSubplans, parse_subplans
from dsms.statements.statement_kind import StatementKind

_PLURALS: dict[str, st.Kind] = {
    "SOURCES": "source",
    "STREAMS": "stream",
    "TABLES": "table",
    "VIEWS": "view",
    "QUERIES": "query",
}

#: The parsers of statements that list something else, by their second word.
_OTHERS: dict[str, Callable[[Cursor], ShowExecutors | ShowSubplans | ShowSchemas]] = {
    EXECUTORS: parse_executors,
    SUBPLANS: parse_subplans,
    SCHEMAS: parse_schemas,
}


@dataclass(frozen=True, slots=True)
class Show(st.Statement):
    """`SHOW SOURCES | STREAMS | TABLES | VIEWS | QUERIES`."""

    kind: st.Kind
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> Show | ShowEntities | ShowExecutors | ShowSubplans | ShowSchemas:
    """All SHOW statements whose second word is in one list of the error message."""
    if cursor.peeks("COLUMNS"):
        cursor.fail("SHOW COLUMNS is not supported", "DESCRIBE name")
    word = cursor.one_of((*_PLURALS, *ENTITIES, *_OTHERS), "kind")
    if word in _OTHERS:
        return _OTHERS[word](cursor)
    if word in ENTITIES:
        return parse_entities(cursor, word)
    cursor.end()
    return Show(_PLURALS[word], cursor.sql)


def _apply(statement: Show, catalog: Catalog, environment: Environment) -> Applied:
    all_of_kind = (item for item in catalog.objects.values() if kind_of(item) == statement.kind)
    shown = [item for item in all_of_kind if environment.may_read(item.name)]
    rows = tuple((item.name, _over(item), environment.state_of(item), item.sql, *_weight(item)) for item in shown)
    weight = ("weight",) if statement.kind in ("view", "query") else ()
    columns = ("name", "topic or source", "state", "sql", *weight)
    return catalog, StatementResult("SHOW", f"{len(rows)} found", columns, rows)


def _weight(item: Object) -> tuple[float, ...]:
    return (item.weight,) if isinstance(item, Query) else ()


def _over(item: Object) -> str:
    return item.source if isinstance(item, Stream) else getattr(item, "topic", "")


KIND = StatementKind(
    statement=Show, starts={("SHOW",): _parse}, apply=_apply, role="reader", words=("SOURCES", "STREAMS")
)
