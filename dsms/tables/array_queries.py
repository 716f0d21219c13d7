"""ARRAY(SELECT …) in one-time queries."""

from __future__ import annotations

from sqlglot import exp

from dsms.sql.binder.query.select_list_unnest import array_agg_query, query_of_array


def aggregate_array_queries(query: exp.Expr) -> None:
    """Replaces each ARRAY(SELECT …) by a query with ARRAY_AGG, as views do.

    >>> from dsms.sql.parser.queries import parse_query
    >>> query = parse_query("SELECT ARRAY(SELECT a FROM t)")
    >>> aggregate_array_queries(query)
    >>> query.sql()
    'SELECT (SELECT ARRAY_AGG(a) FROM t)'
    """
    arrays = [(array, inner) for array in query.find_all(exp.Array) if (inner := query_of_array(array)) is not None]
    for array, inner in reversed(arrays):
        array.replace(array_agg_query(inner))
