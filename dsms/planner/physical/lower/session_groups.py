"""Combines a group-by and the session window right below it into one operator, if its aggregates are running sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dsms.model import logical, properties
from dsms.model.schema import WINDOW_COLUMNS, schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from dsms.planner.optimizer.algebra.conjuncts import total
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Column, Expression, columns
from operators.sessions.session import Session
from operators.sessions.session_group import SessionGroup, supported


@dataclass(frozen=True)
class SessionGroups:
    """γ_K(π(session(A))) as one operator over `input`, which is A with additional columns."""

    session: logical.Session
    input: logical.Node
    operator: SessionGroup

    @property
    def names(self) -> dict[str, str]:
        """The names of the key columns above the operator, by their names in its input."""
        return {input_name: name for name, input_name in reversed(self.operator.keys)}


def session_groups(node: logical.GroupBy) -> SessionGroups | None:
    """The combined operator; None unless three conditions hold. K consists of the columns of the session's partition
    and at least one of `window_start` and `window_end`. π is total, and the outputs that aggregates read do not read
    these two columns. The aggregates are exact running sums.

    The outputs of π that aggregates read are computed below the session instead. This is equivalent, because the same
    rows cancel out within an instant there.
    """
    session, values = _session(node.input)
    if session is None or not all(total(value) for value in values.values()):
        return None
    keys = tuple((key, value.name) for key in node.keys if isinstance(value := values[key], Column))
    key_columns = {column for _, column in keys}
    allowed = {*session.partition, *WINDOW_COLUMNS}
    if len(keys) < len(node.keys) or not set(session.partition) <= key_columns <= allowed:
        return None
    read = {name: values[name] for aggregate in node.aggregates for name in _columns_read(aggregate)}
    if key_columns.isdisjoint(WINDOW_COLUMNS) or any(columns(value) & set(WINDOW_COLUMNS) for value in read.values()):
        return None
    computed = {f"__of_{name}": value for name, value in read.items() if not isinstance(value, Column)}
    below = _with_columns(session.input, computed)
    own = {name: value.name if isinstance(value, Column) else f"__of_{name}" for name, value in read.items()}
    aggregates = tuple(_over(aggregate, own) for aggregate in node.aggregates)
    if not supported(aggregates, schema(below)):
        return None
    operator = Session(session.column, session.gap, session.partition)
    append_only = properties.append_only(session.input)
    groups = SessionGroup(operator, keys, aggregates, schema(below), append_only=append_only)
    return SessionGroups(session, below, groups)


def _session(node: logical.Node) -> tuple[logical.Session | None, dict[str, Expression]]:
    """The session below a group-by, and the columns of the group-by's input over the session; None if there is none."""
    match node:
        case logical.Session():
            return node, dict(unchanged(schema(node)))
        case logical.Project(logical.Session() as session, outputs):
            return session, dict(outputs)
    return None, {}


def _columns_read(aggregate: Aggregate) -> tuple[str, ...]:
    order = (key.column for key in aggregate.order_by)
    return (*aggregate.arguments, *order, *([aggregate.filter] if aggregate.filter else []))


def _over(aggregate: Aggregate, names: Mapping[str, str]) -> Aggregate:
    """The aggregate with its columns renamed."""
    arguments = tuple(names[name] for name in aggregate.arguments)
    order = tuple(replace(key, column=names[key.column]) for key in aggregate.order_by)
    condition = names[aggregate.filter] if aggregate.filter else None
    return replace(aggregate, arguments=arguments, order_by=order, filter=condition)


def _with_columns(node: logical.Node, computed: Mapping[str, Expression]) -> logical.Node:
    return logical.Project(node, (*unchanged(schema(node)), *computed.items())) if computed else node
