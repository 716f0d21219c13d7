"""ORDER BY, LIMIT, OFFSET and FETCH: the first rows of a result. A relation has no order, so without a limit ORDER BY
has no effect and is only checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as Choice

from sqlglot import exp

from dsms.model import logical
from dsms.model.position import error_at, not_supported
from dsms.sql.binder.aggregates.aggregate_calls import constant
from dsms.sql.binder.scope import Scope
from dsms.sql.binder.streams.arrival import breaking_ties
from operators.core.sort_key import SortKey
from operators.expressions import Expression

Bind = Callable[[exp.Expr], Expression]


@dataclass(frozen=True)
class Limit:
    """The rows of an ordered result that are kept: `count` rows after the first `offset`, counted by `method`."""

    count: int | None = None
    offset: int = 0
    method: Choice["row_number", "rank"] = "row_number"

    @property
    def is_all(self) -> bool:
        """Whether all rows are kept."""
        return self.count is None and self.offset == 0

    def applied_to(self, node: logical.Node, partition: tuple[str, ...], order: tuple[SortKey, ...]) -> logical.Node:
        """The rows of each partition that the limit keeps. The result may have additional columns, by which rows that
        tie are ordered."""
        if self.is_all:
            return node
        if self.method == "rank":
            return logical.TopK(node, partition, order, self.count, self.offset, self.method)
        arrived = breaking_ties(node)
        keys = (*order, *arrived.order)
        return logical.TopK(arrived.node, partition, keys, self.count, self.offset, self.method)


def order_of(query: exp.Expr) -> list[exp.Expr]:
    """The items of ORDER BY."""
    order = query.args.get("order")
    return list(order.expressions) if order else []


def limit_of(query: exp.Expr) -> Limit:
    """The limit of a query. Raises SqlError.

    >>> from sqlglot import parse_one
    >>> limit_of(parse_one("SELECT 1 LIMIT 3 OFFSET 2"))
    Limit(count=3, offset=2, method='row_number')
    """
    limit, offset = query.args.get("limit"), query.args.get("offset")
    start = (0 if offset is None else _number(offset.expression, "OFFSET")) or 0
    if limit is None:
        return Limit(None, start)
    if not isinstance(limit, exp.Fetch):
        if limit.args.get("expressions"):
            raise not_supported(limit, "LIMIT BY")
        return Limit(_number(limit.expression, "LIMIT"), start)
    options = limit.args.get("limit_options")
    if options is not None and options.args.get("percent"):
        raise not_supported(
            limit, "FETCH PERCENT", "WHERE PERCENT_RANK() OVER (ORDER BY …) <= 0.1 over a derived table"
        )
    count = limit.args.get("count")
    ties = options is not None and options.args.get("with_ties")
    if ties and start:
        raise not_supported(limit, "OFFSET with WITH TIES")
    return Limit(1 if count is None else _number(count, "FETCH"), start, "rank" if ties else "row_number")


def _number(node: exp.Expr, clause: str) -> int | None:
    if isinstance(node, exp.Null) or (isinstance(node, exp.Column | exp.Var | exp.All) and node.sql().upper() == "ALL"):
        return None
    value = constant(node, Scope.of(()), clause)
    if value is None:
        return None
    if not isinstance(value, int) or value < 0:
        raise error_at(node, f"{clause} needs a number of rows")
    return value


def ordinal(ordered: exp.Expr, count: int) -> int | None:
    """The position in the select list, from 0, of an item of ORDER BY that is a number; None for an expression. Raises
    SqlError if there is no such position."""
    node = value_of(ordered)
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        return None
    if not 1 <= int(node.name) <= count:
        raise error_at(node, f"ORDER BY {node.name}: the select list has {count} columns")
    return int(node.name) - 1


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
