"""Parses REPAIR, ALTER, SHOW and EXPLAIN, and the words for kinds of objects."""

from __future__ import annotations

from typing import Literal

from dsms.model import statements as st
from dsms.sql.parser import queries
from dsms.sql.parser.cursor import Cursor, place_of

KINDS: dict[str, st.Kind] = {
    "SOURCE": "source",
    "STREAM": "stream",
    "TABLE": "table",
    "VIEW": "view",
    "SUMMARY": "view",
    "QUERY": "query",
    "AGGREGATE": "aggregate",
}
_PLURALS: dict[str, st.Kind] = {
    "SOURCES": "source",
    "STREAMS": "stream",
    "TABLES": "table",
    "VIEWS": "view",
    "QUERIES": "query",
}
_EXECUTOR_CLAUSES = ("POLICY", "MIN_BATCH_RECORDS", "MAX_BATCH_RECORDS", "TARGET_BATCH_SECONDS", "STATE_MEMORY")
_ENTITIES: dict[str, Literal["operators", "queues", "synopses", "constraints"]] = {
    "OPERATORS": "operators",
    "QUEUES": "queues",
    "SYNOPSES": "synopses",
    "CONSTRAINTS": "constraints",
}


def repair(cursor: Cursor, _: st.Name | None) -> st.RepairQuery:
    """`REPAIR QUERY name`."""
    return st.RepairQuery(cursor.rest_as_name("query name"), cursor.sql)


def alter(cursor: Cursor, _: st.Name | None) -> st.AlterQuery | st.AlterExecutor:
    """`ALTER QUERY | VIEW name SET (weight = 2.5, fragments = 4, …)`, `ALTER EXECUTOR name SET (policy = chain)`."""
    if cursor.one_of(("QUERY", "VIEW", "EXECUTOR"), "kind") == "EXECUTOR":
        return _alter_executor(cursor)
    name = cursor.name("query name")
    if cursor.peeks("RENAME"):
        cursor.fail("RENAME is not supported", f"CREATE VIEW new_name AS SELECT * FROM {name.text}")
    cursor.expect("SET")
    clauses = queries.options(cursor, ("WEIGHT", "STATE_MEMORY", "FRAGMENTS", "JOIN_ORDER"))
    cursor.end()
    return st.AlterQuery(name, clauses, cursor.sql)


def _alter_executor(cursor: Cursor) -> st.AlterExecutor:
    """`ALTER EXECUTOR name SET …`. A single option may be written without parentheses: `SET POLICY 'chain'`."""
    name = cursor.name("executor name")
    cursor.expect("SET")
    if cursor.peeks("("):
        clauses = queries.options(cursor, _EXECUTOR_CLAUSES)
    else:
        token = cursor.peek()
        option = cursor.one_of(_EXECUTOR_CLAUSES, "option").lower()
        cursor.accept("=")
        clauses = (st.Clause(option, (cursor.next().text,), place_of(token)),)
    cursor.end()
    return st.AlterExecutor(name, clauses, cursor.sql)


def show(cursor: Cursor, _: st.Name | None) -> st.Show | st.ShowEntities | st.ShowExecutors:
    """`SHOW kinds`, `SHOW OPERATORS | QUEUES | SYNOPSES | CONSTRAINTS [FOR query]`, `SHOW EXECUTORS`."""
    if cursor.peeks("COLUMNS"):
        cursor.fail("SHOW COLUMNS is not supported", "DESCRIBE name")
    word = cursor.one_of((*_PLURALS, *_ENTITIES, "EXECUTORS"), "kind")
    if word == "EXECUTORS":
        cursor.end()
        return st.ShowExecutors(cursor.sql)
    if word in _PLURALS:
        cursor.end()
        return st.Show(_PLURALS[word], cursor.sql)
    query = cursor.name("query name") if cursor.accept("FOR") else None
    cursor.end()
    return st.ShowEntities(_ENTITIES[word], query, cursor.sql)


def explain(cursor: Cursor, _: st.Name | None) -> st.Explain | st.ExplainAnalyze:
    """`EXPLAIN name`, `EXPLAIN select` or `EXPLAIN ANALYZE name`."""
    if cursor.peeks("ANALYZE") and len(cursor.tokens) - cursor.at > 1:
        return _analyzed(cursor)
    if cursor.peek().text.upper() in ("SELECT", "WITH", "("):
        return st.Explain(None, queries.continuous(cursor, None).select, cursor.sql)
    return st.Explain(cursor.rest_as_name("name"), None, cursor.sql)


def _analyzed(cursor: Cursor) -> st.ExplainAnalyze:
    cursor.expect("ANALYZE")
    if cursor.peek().text.upper() in ("SELECT", "WITH", "("):
        cursor.fail("EXPLAIN ANALYZE needs the name of a running query", "SHOW QUERIES lists them")
    return st.ExplainAnalyze(cursor.rest_as_name("query name"), cursor.sql)
