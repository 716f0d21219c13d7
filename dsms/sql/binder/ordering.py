"""ORDER BY inside a query: sort keys over columns."""

from __future__ import annotations

from sqlglot import exp

from operators.core.sort_key import SortKey


def sort_key(ordered: exp.Expr, column: str) -> SortKey:
    """The sort key of a parsed ORDER BY item, given the column that holds its value.

    >>> from sqlglot import parse_one
    >>> from dsms.sql.parser.dialect import Dsms
    >>> items = parse_one("SELECT 1 ORDER BY a DESC, b NULLS FIRST", read=Dsms).args["order"].expressions
    >>> [sort_key(item, "x").nulls_first for item in items]
    [None, True]
    """
    descending = bool(ordered.args.get("desc"))
    nulls_first = bool(ordered.args.get("nulls_first"))
    return SortKey(column, descending, None if nulls_first == descending else nulls_first)


def value_of(ordered: exp.Expr) -> exp.Expr:
    """The expression of an ORDER BY item."""
    return ordered.this if isinstance(ordered, exp.Ordered) else ordered
