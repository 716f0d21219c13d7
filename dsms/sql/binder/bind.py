"""Binds a parsed query against a catalog: returns a logical plan, which contains no trees of sqlglot."""

from __future__ import annotations

from sqlglot import exp

import dsms.sql.binder.query.select
import dsms.sql.binder.query.set_queries  # noqa: F401  (both register how queries are bound)
from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.sql.binder.from_clause.catalog_relations import plan_given, plan_of, result_of
from dsms.sql.binder.relation import OnName

__all__ = ["bind", "plan_of", "plan_given"]


def bind(query: exp.Expr, catalog: Catalog, on_name: OnName) -> logical.Node:
    """The logical plan of a query, with views replaced by their plans.

    Calls `on_name` with each name of the catalog that the query itself reads, including its common tables, but not with
    names that views read. Raises SqlError for unknown names, type errors and every construct that is not supported,
    with its location.
    """
    return result_of(query, catalog, on_name)
