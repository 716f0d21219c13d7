"""Rewrites UNNEST and generate_series in a select list to items of FROM, and ARRAY(SELECT …) to ARRAY_AGG."""

from __future__ import annotations

from sqlglot import exp

from dsms.model.position import not_supported
from dsms.sql.binder.aggregates.aggregate_calls import aggregates_in

#: The nodes of UNNEST and generate_series in a select list.
_EXPLODING = (exp.Explode, exp.ExplodingGenerateSeries)
#: The alias of the item of FROM that replaces the call, and of its column.
_ELEMENTS = "__elements"
#: If a SELECT has only these parts, its ORDER BY moves into ARRAY_AGG.
_PLAIN = {"expressions", "from_", "joins", "where", "order"}


def move_unnest_to_from(query: exp.Select) -> None:
    """Moves the UNNEST or generate_series of a select list into FROM: each row is repeated for each element. Raises
    SqlError for several calls, whose elements PostgreSQL pairs, and for a call that cannot move, such as one over
    groups.

    >>> from dsms.sql.parser.queries import parse_query
    >>> query = parse_query("SELECT k, UNNEST(a) + 1 AS x FROM s")
    >>> move_unnest_to_from(query)
    >>> query.sql()
    'SELECT k, __elements.__elements + 1 AS x FROM s CROSS JOIN UNNEST(a) AS __elements(__elements)'
    """
    found = [call for item in query.expressions for call in _calls(item)]
    if not found:
        return
    if len(found) > 1:
        raise not_supported(found[1], "a second UNNEST or generate_series in a select list", "put both into FROM")
    if query.args.get("group") or any(any(aggregates_in(item)) for item in query.expressions):
        raise not_supported(
            found[0], "UNNEST or generate_series over groups", "compute the aggregates in a subquery in FROM"
        )
    (call,) = found
    if query.args.get("qualify") or any(item.find(exp.Window) for item in query.expressions):
        raise not_supported(
            call, "UNNEST or generate_series together with OVER or QUALIFY", "move one of them into a subquery in FROM"
        )
    if star := next((item for item in query.expressions if item.is_star), None):
        raise not_supported(
            star,
            "* together with UNNEST or generate_series in a select list",
            "name the columns, or put UNNEST into FROM",
        )
    if call.args.get("expressions"):
        raise not_supported(call, "UNNEST of several arrays", "use generate_series over the positions, and a[i]")
    name = exp.column(_ELEMENTS, table=_ELEMENTS)
    named = "unnest" if isinstance(call, exp.Explode) else "generate_series"
    call.replace(exp.alias_(name, named) if call.parent is query else name)
    item = _item(call)
    if query.args.get("from_"):
        query.append("joins", exp.Join(this=item, kind="CROSS"))
    else:
        query.set("from_", exp.From(this=item))


def _calls(node: exp.Expr) -> list[exp.Expr]:
    """The calls in an item of a select list, except those in its subqueries."""
    if isinstance(node, exp.Query):
        return []
    inner = [call for child in node.iter_expressions() for call in _calls(child)]
    return [node, *inner] if isinstance(node, _EXPLODING) else inner


def _item(call: exp.Expr) -> exp.Expr:
    """The call as an item of FROM."""
    alias = exp.TableAlias(this=exp.to_identifier(_ELEMENTS), columns=[exp.to_identifier(_ELEMENTS)])
    if isinstance(call, exp.Explode):
        return exp.Unnest(expressions=[call.this], alias=alias)
    return exp.Lateral(this=call, alias=alias)


def query_of_array(node: exp.Expr) -> exp.Query | None:
    """The query of ARRAY(SELECT …); None for every other expression."""
    inner = node.expressions[0] if isinstance(node, exp.Array) and len(node.expressions) == 1 else None
    return inner if isinstance(inner, exp.Select | exp.SetOperation) else None


def array_agg_query(query: exp.Query) -> exp.Subquery:
    """The query that returns the array of all values of another query, in its order; NULL if that has no rows. The
    given query is not modified, because the expression around it may be bound more than once.

    >>> from dsms.sql.parser.queries import parse_query
    >>> array_agg_query(parse_query("SELECT x FROM t ORDER BY y")).sql()
    '(SELECT ARRAY_AGG(x ORDER BY y NULLS LAST) FROM t)'
    """
    return exp.Subquery(this=_aggregated(query.copy()))


def _name_values(order: exp.Order, item: exp.Expr) -> None:
    """Replaces the position or alias of the value in ORDER BY by the value itself."""
    for ordered in order.expressions:
        key, value = ordered.this, exp.paren(item.unalias().copy())
        by_alias = isinstance(key, exp.Column) and not key.table and key.name.lower() == item.alias.lower()
        if by_alias or (isinstance(key, exp.Literal) and key.name == "1"):
            ordered.set("this", value)


def _aggregated(inner: exp.Query) -> exp.Query:
    """The query that collects all values of another one into an array, in its order. Raises SqlError if it cannot."""
    if isinstance(inner, exp.Select):
        move_unnest_to_from(inner)
    if isinstance(inner, exp.Select) and (len(inner.expressions) != 1 or inner.expressions[0].is_star):
        raise not_supported(
            inner, "ARRAY(SELECT …) with several columns or *", "select one column, or combine several as ROW(a, b)"
        )
    plain = isinstance(inner, exp.Select) and not {name for name, part in inner.args.items() if part} - _PLAIN
    if plain and len(inner.expressions) == 1 and not any(aggregates_in(inner.expressions[0])):
        value = inner.expressions[0].unalias()
        order = inner.args.get("order")
        inner.set("order", None)
        if order is not None:
            _name_values(order, inner.expressions[0])
            order.set("this", value)
        inner.set("expressions", [exp.ArrayAgg(this=order or value)])
        return inner
    if order := inner.args.get("order"):
        raise not_supported(
            order,
            "ORDER BY in ARRAY(SELECT …) together with GROUP BY, DISTINCT or LIMIT",
            "use ARRAY_AGG(x ORDER BY …) over a subquery",
        )
    alias = exp.TableAlias(this=exp.to_identifier(_ELEMENTS), columns=[exp.to_identifier(_ELEMENTS)])
    value = exp.ArrayAgg(this=exp.column(_ELEMENTS, table=_ELEMENTS))
    return exp.Select(expressions=[value], from_=exp.From(this=exp.Subquery(this=inner, alias=alias)))
