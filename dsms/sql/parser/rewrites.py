"""Rewrites of a parsed query, before it is bound or run: notations that stand for plain SQL."""

from __future__ import annotations

from sqlglot import exp

from dsms.sql.parser.json_notations import without_json_notations
from dsms.sql.parser.pivot import without_pivots


def rewritten(tree: exp.Expr) -> exp.Expr:
    """The query without PIVOT, UNPIVOT, JSON aggregates and functions that return rows. The tree is modified.

    >>> import sqlglot
    >>> rewritten(sqlglot.parse_one("SELECT SUM(a) FROM t")).sql()
    'SELECT SUM(a) FROM t'
    """
    return without_json_notations(without_pivots(tree))
