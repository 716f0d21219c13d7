"""Limits on queries: the size of a plan including the views that it reads, and the number of queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.limits import Limits
from dsms.model.objects import Query
from dsms.model.properties import inputs
from dsms.model.schema import visible
from dsms.sql.binder.dependencies import reads


class Size(NamedTuple):
    """The size of a plan: its number of operators, where an operator that is used in several places is counted for each
    place; its depth; and the largest number of windows that contain one row."""

    operators: int
    nesting: int
    windows: int


@memoized_by_identity(1 << 14)
def size_of(node: logical.Node) -> Size:
    """The size of a plan. A part that is used in several places is computed once.

    >>> import pyarrow as pa
    >>> row = logical.Values(pa.schema([]), ((),))
    >>> size_of(logical.Union((row, logical.Distinct(row))))
    Size(operators=4, nesting=3, windows=1)
    """
    below = [size_of(input_) for input_ in inputs(node)]
    windows = -(-node.size // node.slide) if isinstance(node, logical.Assign) else 1
    return Size(
        1 + sum(part.operators for part in below),
        1 + max((part.nesting for part in below), default=0),
        windows * max((part.windows for part in below), default=1),
    )


def check_plan(node: logical.Node, limits: Limits) -> None:
    """Raises UserError for a plan that is too large, too deep or too wide."""
    size = size_of(node)
    limits.check("query_operators", size.operators, "with the views that it reads, the query has {} operators")
    limits.check(
        "query_nesting", size.nesting, "with the views that it reads, the plan of the query is {} operators deep"
    )
    limits.check("windows", size.windows, "with the views that it reads, the query copies a row into {} windows")
    limits.check("columns", len(visible(node).names), "the result has {} columns")


def check_registered(names: Iterable[str], catalog: Catalog, limits: Limits) -> None:
    """Raises UserError if a query that reads objects of these names cannot be registered, because there are too many
    queries or views are nested too deep."""
    limits.check("queries", len(catalog.queries()) + 1, "there would be {} views and queries")
    levels, waiting = 0, _views(names, catalog)
    while waiting:
        levels += 1
        limits.check("query_nesting", levels, "the query reads views nested {} deep")
        waiting = _views((name for view in waiting.values() for name in reads(view)), catalog)


def _views(names: Iterable[str], catalog: Catalog) -> dict[str, Query]:
    """The views among the objects of these names."""
    found = (catalog.get(name) for name in names)
    return {item.name: item for item in found if isinstance(item, Query)}
