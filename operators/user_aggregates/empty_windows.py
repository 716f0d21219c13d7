"""Finds the calls over windows that start over when their window is empty. Their earlier state can then be dropped."""

from __future__ import annotations

from collections.abc import Iterator

from operators.expressions.tree import Column, Expression
from operators.user_aggregates.definition import (
    WINDOW_TABLE,
    Definition,
    Delete,
    Insert,
    Query,
    Statement,
    returns,
    walk_all,
)
from operators.user_aggregates.fold_plan import FoldCall


def starts_over(call: FoldCall) -> bool:
    """Whether a call over a window treats a row that enters an empty window like the very first row.

    A base definition starts over with INITIALIZE. A window definition continues with ITERATE. In effect it starts over
    if it has no state except the rows of the window, and ITERATE does the same for a single row as INITIALIZE. The
    built-in MIN is an example.
    """
    definition = call.definition
    if call.mode != "delta":
        return False
    if call.ends and not definition.reads_window:
        return leaves_silently(definition)
    if definition.variables or definition.stored or definition.expire:
        return False
    return definition.initialize == definition.iterate or _alone(definition) == definition.initialize


def leaves_silently(definition: Definition) -> bool:
    """Whether EXPIRE returns no values for a row that leaves."""
    return definition.python is not None or not any(map(returns, walk_all(definition.expire or ())))


def _alone(definition: Definition) -> tuple[Statement, ...]:
    """ITERATE simplified for a row that is alone in the window: it is the oldest row, and there are no older ones."""
    return tuple(_with_oldest(definition, statement) for statement in _kept(definition.iterate))


def _kept(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in statements:
        if not (isinstance(statement, Delete) and statement.older and statement.scan.table == WINDOW_TABLE):
            yield statement


def _with_oldest(definition: Definition, statement: Statement) -> Statement:
    """The statement with the parameters in place of each query output that is just `oldest()`."""
    if not isinstance(statement, Insert):
        return statement
    queries = tuple(
        Query((), tuple(_parameter(definition, output) for output in query.outputs))
        if query == Query((), query.outputs)
        else query
        for query in statement.queries
    )
    return Insert(statement.table, queries, statement.place)


def _parameter(definition: Definition, value: Expression) -> Expression:
    oldest = {
        subquery.name: subquery.query.outputs[0]
        for subquery in definition.subqueries
        if [(scan.table, scan.oldest) for scan in subquery.query.scans] == [(WINDOW_TABLE, True)]
        and subquery.query == Query(subquery.query.scans, subquery.query.outputs)
        and not subquery.exists
    }
    own = oldest.get(value.name) if isinstance(value, Column) else None
    if not isinstance(own, Column):
        return value
    parameters = dict(zip(definition.inwindow, definition.parameters, strict=False))
    name, type_ = parameters[own.name.split(":", 1)[1]]
    return Column(f"p:{name}", type_)
