"""The names of the columns of a one-time query, as in PostgreSQL."""

from __future__ import annotations

from sqlglot import exp

from dsms.sql.binder.scalars.expression_functions import written_name

#: The name of a column that is computed by operators.
UNNAMED = "?column?"


def name_columns(query: exp.Expr) -> None:
    """Names the columns of a query that have no names: after the function that computes them, else `?column?`.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT a, count(*), b + 1, CAST(b AS TEXT), upper(c) AS d FROM t")
    >>> name_columns(query)
    >>> [each.alias_or_name for each in query.selects]
    ['a', 'count', '?column?', 'b', 'd']
    """
    while isinstance(query, exp.SetOperation | exp.Subquery):
        if query.args.get("by_name"):
            name_columns(query.expression)
        query = query.this
    if isinstance(query, exp.Select):
        query.set("expressions", [_named(each) for each in query.expressions])


def _named(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Alias | exp.Aliases | exp.Column | exp.Star | exp.Explode | exp.Unnest | exp.Columns):
        return node
    return exp.alias_(node, name_of_value(node), quoted=True, copy=False)


def name_of_value(node: exp.Expr) -> str:
    """The name of the column that an expression computes."""
    if isinstance(node, exp.Paren | exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.Distinct):
        return name_of_value(node.this)
    if isinstance(node, exp.Cast | exp.TryCast):
        inner = name_of_value(node.this)
        return str(node.to.sql("duckdb")).lower() if inner == UNNAMED else inner
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Case | exp.Exists | exp.Array):
        return node.key
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Binary):
        return written_name(node)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select) and len(node.this.selects) == 1:
        return node.this.selects[0].alias or name_of_value(node.this.selects[0])
    return UNNAMED
