"""Reads the name of the stream or view in a table reference, and its location."""

from __future__ import annotations

import unicodedata

from sqlglot import exp

from dsms.model.position import not_supported

#: The spellings of the function from a stream to its relation.
RELATION_OF = ("R", "ℜ")


def name_of(table: exp.Table) -> str:
    """The name of the stream or view in a table reference: S in `S`, `R(S)` and `ℜ(S)`. Raises SqlError."""
    return name_and_place(table)[0]


def name_and_place(table: exp.Table) -> tuple[str, exp.Expr]:
    """The name in `S`, `R(S)` or `ℜ(S)`, and the node that spells it. Raises SqlError for other references."""
    inner = table.this
    if isinstance(inner, exp.Identifier):
        return _digits(inner.name), inner
    arguments = getattr(inner, "expressions", [])
    if isinstance(inner, exp.Anonymous) and inner.name.upper() in RELATION_OF and len(arguments) == 1:
        argument = arguments[0]
        if isinstance(argument, exp.Column) and not argument.table:
            return _digits(argument.name), argument
    raise not_supported(table, f'"{inner.sql()}" in FROM')


def _digits(name: str) -> str:
    """The name with subscript digits replaced by digits, as in declarations."""
    return unicodedata.normalize("NFKC", name)


def names_of(name: str, query: exp.Expr) -> list[str]:
    """The names by which a query refers to an object: its name, and its aliases in FROM.

    >>> import sqlglot
    >>> names_of("s", sqlglot.parse_one("SELECT x.k FROM S AS x, M"))
    ['s', 'x']
    """
    tables = (table for table in query.find_all(exp.Table) if table.alias and table.name.casefold() == name.casefold())
    return [name, *(table.alias for table in tables)]
