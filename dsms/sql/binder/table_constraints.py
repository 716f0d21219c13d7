"""Checks the expressions in DEFAULT and CHECK of a table before it is created."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import bare_name
from dsms.model.position import error_at
from dsms.model.types import type_sql
from dsms.sql.binder.scalars.current_time import ANY_INSTANT, at_instant, reads_current_time
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.known_functions import refuse_unknown_functions, refuse_user_defined_functions
from dsms.sql.binder.scope import Scope
from operators.expressions import LONGEST_CONSTANT, Expression, cast, evaluate


def check_expressions(statement: st.CreateTable, schema: pa.Schema, catalog: Catalog) -> None:
    """Raises SqlError for a default that names a column or does not fit its column's type, for a check that is not a
    BOOLEAN over one row, and for either of them if it has a subquery or calls a user-defined function."""
    for column, default in statement.defaults:
        check_plain(default.tree, catalog, f'the default of "{column.text}"')
        if named := default.tree.find(exp.Column):
            raise error_at(
                named, f'the default of "{column.text}" reads column "{named.name}", but a default cannot read columns'
            )
        tree = at_instant(default.tree, ANY_INSTANT)
        value = cast(bind_expression(tree, Scope(pa.schema([]))), schema.field(column.text).type)
        if fault := _fault(value):
            raise error_at(default.tree, f'the default of "{column.text}": {fault}')
    for name, condition in statement.checks:
        check_plain(condition.tree, catalog, f'check "{name}"')
        if reads_current_time(condition.tree):
            why = f'check "{name}" reads the current time, so a row that satisfies it may violate it later'
            raise error_at(condition.tree, why, hint="add a column with DEFAULT now(), and compare with that")
        kind = bind_expression(condition.tree, Scope(schema, bare_name(statement.name.text))).type
        if not pa.types.is_boolean(kind):
            raise error_at(condition.tree, f'check "{name}" is {type_sql(kind)}, not BOOLEAN')


def check_plain(tree: exp.Expr, catalog: Catalog, what: str) -> None:
    """Raises SqlError for an expression that has a subquery or calls a user-defined function; errors call it `what`."""
    if query := tree.find(exp.Query):
        raise error_at(query, f"{what} has a subquery", hint="leave it out: DEFAULT and CHECK cannot read relations")
    refuse_user_defined_functions(tree, catalog)
    refuse_unknown_functions(tree)


def _fault(value: Expression) -> str | None:
    """The reason why a constant has no value; None if it has one."""
    faults = evaluate(pl.DataFrame({"row": [1]}), {"value": value}, LONGEST_CONSTANT)[1]
    return None if faults[0] is None else str(faults[0])
