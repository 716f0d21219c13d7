"""Plans of queries that the system may adjust while they run (window sizes, sketches, shedding), and SHED_WHERE: the
condition that a record of a query's stream must satisfy to be shed."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import sqlglot
from sqlglot.errors import ParseError, TokenError

from dsms.model import logical
from dsms.model.limits import Limits
from dsms.model.objects import Former, Query
from dsms.model.schema import schema
from dsms.planner.optimizer.monotone_shedding import with_parts
from dsms.planner.optimizer.shedding import with_shedding
from dsms.planner.optimizer.sketches import approximated
from dsms.planner.optimizer.window_ranges import with_ranges
from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Entry, Scope
from dsms.sql.parser.dialect import Dsms
from dsms.sql.parser.statement_limits import check_statement, within_limits
from operators.core.errors import UserError
from operators.expressions import Expression, column


def adjustable_plan(node: logical.Node, query: Query | Former) -> logical.Node:
    """Applies a query's options to its bound plan. With bounded memory, the system chooses sizes of windows at run time
    (`window_ranges`), or uses sketches if the query also allows an error (`sketches`). If its input may be shed, the
    plan gets Shed operators: one with estimates above it (`shedding`), or one for each stream (`monotone_shedding`).
    All of these are in `dsms.planner.optimizer`."""
    node = with_ranges(node, query.id, bounded=query.memory is not None and query.sketch_error is None)
    if query.sketch_error is not None:
        return approximated(node, query.sketch_error)
    if not query.sheddable:
        return node
    if query.max_loss is not None:
        return with_parts(node, query.id, query.preference)
    only = None if query.shed_where is None else partial(_shed_condition, query.shed_where)
    return with_shedding(node, query.id, error_columns=query.error_columns, only=only)


def _shed_condition(text: str, stream: logical.StreamScan) -> Expression:
    """The condition `text`, bound over the columns of a stream. Raises a UserError that quotes it if it is not a
    condition."""
    fields = schema(stream)
    entries = tuple(Entry(stream.stream, field.name, column(field)) for field in fields)
    try:
        check_statement(Dsms().tokenize(text), Limits())
        tree = within_limits(sqlglot.parse_one(text, read=Dsms), Limits())
        condition = bind_expression(tree, Scope.of(entries))
    except (UserError, ParseError, TokenError) as error:
        problem = error.message if isinstance(error, UserError) else "not an expression"
        hint = error.hint if isinstance(error, UserError) else "write a condition such as price < 10"
        raise UserError(f'SHED_WHERE "{text}": {problem}', hint=hint) from error
    if condition.type != pa.bool_():
        raise UserError(f'SHED_WHERE "{text}" is not a condition', hint="write a condition such as price < 10")
    return condition
