"""Rewrites arrays in queries of PostgreSQL's catalog for DuckDB: texts such as `'{a,b}'`, and LIKE ANY."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import reduce
from typing import Final

from sqlglot import exp

from dsms.coordinator.postgres.array_texts import Item, NoArray, items_of

#: Arrays of OIDs, which sqlglot does not parse; else a text, a name or a comment, in which nothing is replaced.
_OIDS: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/"""
    r"|\b(?:pg_catalog\.)?(?P<kind>oid|regclass|regtype|regproc|regnamespace|regrole)(?=\[)",
    re.IGNORECASE | re.DOTALL,
)


def with_numbers_for_oids(sql: str) -> str:
    """The text with arrays of numbers instead of arrays of OIDs; all other words keep their places.

    >>> with_numbers_for_oids("SELECT '{1}'::oid[], $1::regclass[]")
    "SELECT '{1}'::int[], $1::int     []"
    """
    return _OIDS.sub(lambda found: "int".ljust(len(found[0])) if found["kind"] else found[0], sql)


def with_arrays(query: exp.Expr) -> None:
    """Replaces texts that stand for arrays, and comparisons of a text with each pattern of an array."""
    for text in [each for each in query.find_all(exp.Literal) if each.is_string and _stands_for_array(each)]:
        with suppress(NoArray):
            text.replace(_array(items_of(text.name)))
    for like in reversed(list(query.find_all(exp.Like, exp.ILike))):
        if isinstance(like.expression, exp.Any | exp.All):
            like.replace(_each_pattern(like))


def _stands_for_array(text: exp.Expr) -> bool:
    parent = text.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return isinstance(parent.to, exp.DataType) and bool(parent.to.this == exp.DType.ARRAY)
    return isinstance(parent, exp.Any | exp.All) or (isinstance(parent, exp.Anonymous) and parent.name.lower() == "all")


def _array(items: list[Item]) -> exp.Array:
    return exp.Array(expressions=[_array(item) if isinstance(item, list) else exp.convert(item) for item in items])


def _each_pattern(like: exp.Expr) -> exp.Expr:
    """`a LIKE ANY (b)`: for each item if it is an array in the text, else over the list."""
    every, patterns = isinstance(like.expression, exp.All), like.expression.this.unnest()
    if isinstance(patterns, exp.Cast) and isinstance(patterns.this, exp.Array):
        patterns = patterns.this

    def compared(pattern: exp.Expr) -> exp.Expr:
        made = like.copy()
        made.set("expression", pattern.copy())
        return exp.Paren(this=made)

    if isinstance(patterns, exp.Array):
        joined = reduce(lambda a, b: exp.and_(a, b) if every else exp.or_(a, b), map(compared, patterns.expressions))
        return exp.Paren(this=joined)
    item = exp.to_identifier("pattern")
    each = exp.Lambda(this=compared(exp.column(item)), expressions=[item.copy()])
    listed = exp.func("list_transform", patterns.copy(), each, dialect="duckdb")
    return exp.func("list_bool_and" if every else "list_bool_or", listed, dialect="duckdb")
