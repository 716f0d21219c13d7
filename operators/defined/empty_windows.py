"""Calls over windows that begin again where their window is empty, so that nothing of what was before is needed."""

from __future__ import annotations

from collections.abc import Iterator

from operators.defined.definition import INWINDOW, Definition, Delete, Insert, Query, Statement, returns, walk_all
from operators.defined.fold_plan import FoldCall
from operators.expressions.tree import Column, Expression


def begins_again(call: FoldCall) -> bool:
    """Whether a call over a window returns for a row that comes to an empty window what it returns for the first row.

    A base definition starts over then. A window definition goes on with ITERATE: it begins again if the rows of the
    window are all of its state, and ITERATE does for a single row what INITIALIZE does, as that of the built-in MIN.
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
    """Whether nothing is returned for a row that leaves."""
    return definition.python is not None or not any(map(returns, walk_all(definition.expire or ())))


def _alone(definition: Definition) -> tuple[Statement, ...]:
    """ITERATE where the row that came is alone in the window: there are no older rows, and it is the oldest."""
    return tuple(_with_oldest(definition, statement) for statement in _kept(definition.iterate))


def _kept(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for statement in statements:
        if not (isinstance(statement, Delete) and statement.older and statement.scan.table == INWINDOW):
            yield statement


def _with_oldest(definition: Definition, statement: Statement) -> Statement:
    """The statement with the parameters in place of `oldest()`, where that is a whole value."""
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
        if [(scan.table, scan.oldest) for scan in subquery.query.scans] == [(INWINDOW, True)]
        and subquery.query == Query(subquery.query.scans, subquery.query.outputs)
        and not subquery.exists
    }
    own = oldest.get(value.name) if isinstance(value, Column) else None
    if not isinstance(own, Column):
        return value
    parameters = dict(zip(definition.inwindow, definition.parameters, strict=False))
    name, type_ = parameters[own.name.split(":", 1)[1]]
    return Column(f"p:{name}", type_)
