"""Calls of generate_series in one-time queries: DuckDB's table function, which does not hold all numbers at once."""

from __future__ import annotations

from sqlglot import exp

from dsms.model.position import error_at, not_supported
from dsms.sql.binder.query.select_list_unnest import move_unnest_to_from

_NAME = "generate_series"


def move_series_to_from(query: exp.Expr) -> None:
    """Makes each generate_series of a query an item of FROM: those in select lists repeat each row for each number.
    Raises SqlError for a call anywhere else, and for the step 0.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT k, GENERATE_SERIES(1, k) FROM t", read="postgres")
    >>> move_series_to_from(query)
    >>> query.sql("duckdb")
    'SELECT k, __elements.__elements AS generate_series FROM t CROSS JOIN LATERAL GENERATE_SERIES(1, k) AS \
__elements(__elements)'
    """
    for call in list(query.find_all(exp.ExplodingGenerateSeries)):
        if not isinstance(call.parent, exp.Lateral):
            _move(call)
        _name_columns(call)


def _move(call: exp.ExplodingGenerateSeries) -> None:
    """Moves a call of a select list into FROM."""
    clauses = (exp.Where, exp.Join, exp.Having, exp.Qualify, exp.Order, exp.Group, exp.From)
    select = call.find_ancestor(exp.Select, *clauses)
    if not isinstance(select, exp.Select):
        raise not_supported(call, "generate_series outside of FROM and the select list", "call it in FROM")
    move_unnest_to_from(select)


def _name_columns(call: exp.ExplodingGenerateSeries) -> None:
    """Makes the call, an item of FROM, the function of DuckDB. Without an alias, it and its column have its name, as in
    views."""
    step, item = call.args.get("step"), call.parent
    assert isinstance(item, exp.Lateral)
    if isinstance(step, exp.Literal) and not step.is_string and float(step.name) == 0:
        raise error_at(step, "the step of generate_series is 0", hint="leave it out for 1")
    if not item.args.get("alias"):
        item.set("alias", exp.TableAlias(this=exp.to_identifier(_NAME), columns=[exp.to_identifier(_NAME)]))
    call.replace(exp.GenerateSeries(**call.args))
