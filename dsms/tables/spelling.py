"""Aggregates of the language as DuckDB has them, which answers queries that run once."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp


def spelled(query: exp.Expr) -> exp.Expr:
    """The query with the aggregates that DuckDB lacks in its own words.

    >>> import sqlglot
    >>> spelled(sqlglot.parse_one("SELECT APPROX_COUNT_DISTINCT(b) + 1 FROM t")).sql("duckdb")
    'SELECT COUNT(DISTINCT b) + 1 FROM t'
    """
    return query.transform(_spelled)


def _spelled(node: exp.Expr) -> exp.Expr:
    spell = _SPELLINGS.get(type(node))
    if spell is None and isinstance(node, exp.Anonymous):
        spell = _NAMED.get(node.name.upper())
    return node if spell is None else spell(node)


def _count_distinct(node: exp.Expr) -> exp.Expr:
    """A query that runs once has all values at hand, so approximate aggregates are exact."""
    return exp.Count(this=exp.Distinct(expressions=[node.this]))


def _quantile(value: exp.Expr, fraction: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="quantile_disc", expressions=[value, fraction])


_SPELLINGS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ApproxDistinct: _count_distinct,
    exp.ApproxQuantile: lambda node: _quantile(node.this, node.args["quantile"]),
}
_NAMED: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "APPROX_PERCENTILE": lambda node: _quantile(*node.expressions[:2]),
}
