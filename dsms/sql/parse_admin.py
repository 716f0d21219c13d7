"""DROP, PAUSE, RESUME, ALTER QUERY, SHOW, DESCRIBE and EXPLAIN."""

from __future__ import annotations

from dsms.sql import parse_queries
from dsms.sql import statements as st
from dsms.sql.cursor import Cursor

_KINDS: dict[str, st.Kind] = {
    "SOURCE": "source",
    "STREAM": "stream",
    "TABLE": "table",
    "VIEW": "view",
    "QUERY": "query",
}
_PLURALS: dict[str, st.Kind] = {
    "SOURCES": "source",
    "STREAMS": "stream",
    "TABLES": "table",
    "VIEWS": "view",
    "QUERIES": "query",
}


def drop(cursor: Cursor, _: st.Name | None) -> st.Drop:
    """`DROP kind [IF EXISTS] name [CASCADE]`."""
    kind = _KINDS[cursor.one_of(tuple(_KINDS), "kind")]
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name(f"{kind} name")
    cascade = cursor.accept("CASCADE")
    cursor.end()
    return st.Drop(kind, name, if_exists, cascade, cursor.sql)


def pause(cursor: Cursor, _: st.Name | None) -> st.SetPaused:
    """`PAUSE [QUERY | VIEW] name`."""
    return st.SetPaused(_query_name(cursor), True, cursor.sql)


def resume(cursor: Cursor, _: st.Name | None) -> st.SetPaused:
    """`RESUME [QUERY | VIEW] name`."""
    return st.SetPaused(_query_name(cursor), False, cursor.sql)


def _query_name(cursor: Cursor) -> st.Name:
    if cursor.peek().text.upper() in ("QUERY", "VIEW") and len(cursor.tokens) - cursor.at > 1:
        cursor.next()
    name = cursor.name("query name")
    cursor.end()
    return name


def alter(cursor: Cursor, _: st.Name | None) -> st.AlterQuery:
    """`ALTER QUERY | VIEW name SET (weight = 2.5)`."""
    cursor.one_of(("QUERY", "VIEW"), "kind")
    name = cursor.name("query name")
    cursor.expect("SET")
    clauses = parse_queries.options(cursor, ("WEIGHT",))
    cursor.end()
    return st.AlterQuery(name, clauses, cursor.sql)


def show(cursor: Cursor, _: st.Name | None) -> st.Show:
    """`SHOW kinds`."""
    kind = _PLURALS[cursor.one_of(tuple(_PLURALS), "kind")]
    cursor.end()
    return st.Show(kind, cursor.sql)


def describe(cursor: Cursor, _: st.Name | None) -> st.Describe:
    """`DESCRIBE [kind] name`."""
    if cursor.peek().text.upper() in _KINDS and len(cursor.tokens) - cursor.at > 1:
        cursor.next()
    name = cursor.name("name")
    cursor.end()
    return st.Describe(name, cursor.sql)


def explain(cursor: Cursor, _: st.Name | None) -> st.Explain:
    """`EXPLAIN name` or `EXPLAIN select`."""
    if cursor.peek().text.upper() in ("SELECT", "WITH", "("):
        return st.Explain(None, parse_queries.continuous(cursor, None).select, cursor.sql)
    name = cursor.name("name")
    cursor.end()
    return st.Explain(name, None, cursor.sql)
