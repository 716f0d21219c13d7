"""Binding: from a parsed query and a catalog to a logical plan, without sqlglot's trees."""

from __future__ import annotations

from sqlglot import exp

import dsms.sql.binder.select
import dsms.sql.binder.set_queries  # noqa: F401  (both register how queries are bound)
from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.sql.binder.catalog_relations import plan_of, plan_over, result_of
from dsms.sql.binder.relation import Named

__all__ = ["bind", "plan_of", "plan_over"]


def bind(query: exp.Expr, catalog: Catalog, named: Named) -> logical.Node:
    """The logical plan of a query, with views replaced by their plans. `named` is told of each name that the query
    itself reads, as binding resolves it: behind common tables, but not inside of views.

    Raises SqlError for unknown names, type errors and every construct that is not supported, with its position.
    """
    return result_of(query, catalog, named)
