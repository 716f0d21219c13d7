"""Binding: a parsed query and a catalog give a logical plan. sqlglot's trees end here."""

from __future__ import annotations

from sqlglot import exp

import dsms.sql.select
import dsms.sql.set_queries  # noqa: F401  (both register how queries are bound)
from dsms.catalog.catalog import Catalog
from dsms.plan import logical
from dsms.sql.catalog_relations import plan_of, result_of
from dsms.sql.table_names import name_of

__all__ = ["bind", "names_in", "plan_of"]


def bind(query: exp.Expr, catalog: Catalog) -> logical.Node:
    """The logical plan of a query; views are replaced by their own plans.

    Raises SqlError for unknown names, type errors and every construct that is not supported, with its position.
    """
    return result_of(query, catalog)


def names_in(query: exp.Expr) -> list[str]:
    """The streams and views that a query reads."""
    return [name_of(table) for table in query.find_all(exp.Table) if not _is_common(table)]


def _is_common(table: exp.Table) -> bool:
    """Whether a name is one of WITH around it."""
    above = table.parent
    while above is not None:
        named = above.args.get("with_")
        if named is not None and any(one.alias.lower() == table.name.lower() for one in named.expressions):
            return True
        above = above.parent
    return False
