"""WITH: names for queries."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dsms.model.position import error_at
from dsms.sql.binder.relation import Context, refusal


def with_common_tables(query: exp.Expr, context: Context) -> Context:
    """The context with the common tables of a query's WITH, each of which can use those before it. Raises SqlError."""
    common = query.args.get("with_")
    if common is None:
        return context
    for cte in common.expressions:
        name = cte.alias.lower()
        if common.args.get("recursive") and any(table.name.lower() == name for table in cte.this.find_all(exp.Table)):
            raise refusal(cte, "WITH RECURSIVE")
        if any(other.alias.lower() == name for other in common.expressions if other is not cte):
            raise error_at(cte, f'two queries of WITH are named "{cte.alias}"')
        context = replace(context, ctes={**context.ctes, name: (cte, context)})
    return context
