"""Translates aggregates of the language for DuckDB, which answers one-time queries."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from operators.aggregates import ALIASES


def with_duckdb_aggregates(query: exp.Expr) -> exp.Expr:
    """The query with the aggregates that DuckDB lacks, or defines otherwise, replaced by DuckDB's own.

    >>> import sqlglot
    >>> with_duckdb_aggregates(sqlglot.parse_one("SELECT APPROX_COUNT_DISTINCT(b) + 1 FROM t")).sql("duckdb")
    'SELECT COUNT(DISTINCT b) + 1 FROM t'
    """
    return query.transform(_spelled)


def _spelled(node: exp.Expr) -> exp.Expr:
    spell = _SPELLINGS.get(type(node))
    if spell is None and isinstance(node, exp.Anonymous):
        spell = _NAMED.get(node.name.upper())
    return node if spell is None else spell(node)


def _count_distinct(node: exp.Expr) -> exp.Expr:
    """Counts exactly what the language approximates: a one-time query has all values in memory."""
    return exp.Count(this=exp.Distinct(expressions=[node.this]))


def _count_of(true: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=true, true=exp.Literal.number(1))]))


def _count_if(node: exp.Expr) -> exp.Expr:
    """DuckDB's own COUNT_IF has the type of a sum."""
    return node if isinstance(node.this, exp.Distinct) else _count_of(node.this)


def _count_pairs(node: exp.Expr) -> exp.Expr:
    """DuckDB's own REGR_COUNT takes only numbers."""
    present = [exp.Is(this=exp.Paren(this=each), expression=exp.Null()).not_() for each in (node.this, node.expression)]
    return _count_of(exp.and_(*present))


def _best(node: exp.Expr) -> exp.Expr:
    """DuckDB takes the first of equally good values; the order makes this the least one."""
    if isinstance(node.expression, exp.Expr) and not isinstance(node.expression, exp.Order):
        node.set("expression", _in_order_of(node.expression, node.this))
    return node


def _mode(node: exp.Expr) -> exp.Expr:
    """DuckDB takes the first of equally frequent values; the order makes this the least one."""
    if node.this is not None and not isinstance(node.this, exp.Distinct | exp.Order):
        node.set("this", _in_order_of(node.this, node.this))
    return node


def _in_order_of(argument: exp.Expr, value: exp.Expr) -> exp.Order:
    """The last argument of an aggregate, followed by ORDER BY a value."""
    return exp.Order(this=argument, expressions=[exp.Ordered(this=value.copy(), nulls_first=False)])


def _quantile(value: exp.Expr, fraction: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="quantile_disc", expressions=[value, fraction])


def _by_first_name(node: exp.Expr) -> exp.Expr:
    """Calls an aggregate by its first name, because DuckDB lacks the written one."""
    return exp.Anonymous(this=ALIASES[node.name.lower()], expressions=node.expressions)


def _continuous_quantile(node: exp.Expr) -> exp.Expr:
    """QUANTILE interpolates; in DuckDB it does not."""
    return exp.Anonymous(this="quantile_cont", expressions=[node.this, node.args["quantile"]])


_SPELLINGS: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.ApproxDistinct: _count_distinct,
    exp.ArgMax: _best,
    exp.ArgMin: _best,
    exp.CountIf: _count_if,
    exp.Mode: _mode,
    exp.Quantile: _continuous_quantile,
    exp.RegrCount: _count_pairs,
    exp.ApproxQuantile: lambda node: _quantile(node.this, node.args["quantile"]),
}
_NAMED: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "APPROX_PERCENTILE": lambda node: _quantile(*node.expressions[:2]),
    "COLLECT": _by_first_name,
    "COLLECT_LIST": _by_first_name,
    "EVERY": _by_first_name,
    "SOME": _by_first_name,
    "STD": _by_first_name,
}
