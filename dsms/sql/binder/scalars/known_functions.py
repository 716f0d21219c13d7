"""Checks that a query calls only functions in `docs/functions.md`, even if DuckDB runs it, which has further ones."""

from __future__ import annotations

from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.position import error_at
from dsms.sql.binder.aggregates.aggregate_calls import aggregate_function
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup
from dsms.sql.binder.scalars.current_time import CURRENT
from dsms.sql.binder.scalars.expression_functions import function_name, is_supported_call, refuse_unknown, written_name
from dsms.sql.binder.windows import window_functions
from dsms.sql.parser.table_names import RELATION_OF

#: Notations that the parser represents as calls of functions.
_NOTATIONS = (
    exp.And, exp.Or, exp.Array, exp.Case, exp.Cast, exp.TryCast, exp.Exists, exp.Explode, exp.GenerateSeries,
    exp.Grouping, exp.Unnest,
)  # fmt: skip


def refuse_unknown_functions(query: exp.Expr) -> None:
    """Raises SqlError at the first call of a function that the language does not have, even if DuckDB has it. The
    functions of `current_time` are known: what runs once replaces them by its instant.

    >>> from dsms.sql.parser.queries import parse_query
    >>> refuse_unknown_functions(parse_query("SELECT upper(a), sum(b) OVER (ORDER BY a), lag(a) OVER () FROM R(s)"))
    >>> refuse_unknown_functions(parse_query("SELECT a, pg_sleep(1) FROM s"))
    Traceback (most recent call last):
    operators.core.errors.SqlError: line 1, column 11: function "pg_sleep" not found; have: ...
    """
    for call in query.find_all(exp.Func):
        if not isinstance(call, tuple(CURRENT)) and not _is_known(call):
            refuse_unknown(call)


def refuse_user_defined_functions(query: exp.Expr, catalog: Catalog) -> None:
    """Raises SqlError at the first call of a user-defined aggregate or function, even if it hides a built-in function:
    the engine that runs a query once does not have them."""
    aggregates = AggregateLookup(catalog)
    for call in query.find_all(exp.Func):
        name = written_name(call)
        if not isinstance(call, _NOTATIONS) and (aggregates.has(name) or f"{name}()" in catalog.objects):
            raise error_at(
                call,
                f'"{name}" is user-defined, and a statement that runs once can call only built-in functions',
                hint=f"call it in a view, and select from the view: CREATE VIEW v AS SELECT {name}(…) FROM …",
            )


def _is_known(call: exp.Func) -> bool:
    if isinstance(call, _NOTATIONS) or aggregate_function(call) is not None or is_supported_call(call):
        return True
    if isinstance(call.parent, exp.Table):
        return call.name.upper() in RELATION_OF
    return function_name(call) in window_functions.FUNCTIONS
