"""A group-by right above a session, as one operator where its aggregates are running sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dsms.model import logical, properties
from dsms.model.schema import WINDOW_COLUMNS, schema
from dsms.optimizer.algebra.column_projections import unchanged
from dsms.optimizer.algebra.conjuncts import total
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Column, Expression, columns
from operators.sessions.session import Session
from operators.sessions.session_group import SessionGroup, supported


@dataclass(frozen=True)
class SessionGroups:
    """γ_K(π(session(A))) as one operator over A with more columns."""

    input: logical.Node
    operator: SessionGroup

    @property
    def names(self) -> dict[str, str]:
        """What the columns of the input are called above the operator."""
        return {own: name for name, own in reversed(self.operator.keys)}


def session_groups(node: logical.GroupBy) -> SessionGroups | None:
    """The one operator, if K are the columns of the partition and bounds of the session, π is total and reads no bound
    for an aggregate, and the aggregates are exact running sums.

    What π computes is computed below the session: the rows that cancel within an instant are the same ones.
    """
    session, values = _session(node.input)
    if session is None or not all(total(one) for one in values.values()):
        return None
    keys = tuple((key, one.name) for key in node.keys if isinstance(one := values[key], Column))
    owns = {own for _, own in keys}
    if len(keys) < len(node.keys) or not set(session.partition) <= owns <= {*session.partition, *WINDOW_COLUMNS}:
        return None
    read = {name: values[name] for one in node.aggregates for name in _read(one)}
    if owns.isdisjoint(WINDOW_COLUMNS) or any(columns(one) & set(WINDOW_COLUMNS) for one in read.values()):
        return None
    made = {f"__of_{name}": one for name, one in read.items() if not isinstance(one, Column)}
    below = _with(session.input, made)
    own = {name: one.name if isinstance(one, Column) else f"__of_{name}" for name, one in read.items()}
    aggregates = tuple(_over(one, own) for one in node.aggregates)
    if not supported(aggregates, schema(below)):
        return None
    operator = Session(session.column, session.gap, session.partition)
    once = properties.append_only(session.input)
    return SessionGroups(below, SessionGroup(operator, keys, aggregates, schema(below), append_only=once))


def _session(node: logical.Node) -> tuple[logical.Session | None, dict[str, Expression]]:
    """The session below, and the columns of the node over it."""
    match node:
        case logical.Session():
            return node, dict(unchanged(schema(node)))
        case logical.Project(logical.Session() as session, outputs):
            return session, dict(outputs)
    return None, {}


def _read(one: Aggregate) -> tuple[str, ...]:
    return (*one.arguments, *(key.column for key in one.order_by), *([one.filter] if one.filter else []))


def _over(one: Aggregate, names: Mapping[str, str]) -> Aggregate:
    """The aggregate over columns of other names."""
    order = tuple(replace(key, column=names[key.column]) for key in one.order_by)
    condition = names[one.filter] if one.filter else None
    return replace(one, arguments=tuple(names[name] for name in one.arguments), order_by=order, filter=condition)


def _with(node: logical.Node, made: Mapping[str, Expression]) -> logical.Node:
    return logical.Project(node, (*unchanged(schema(node)), *made.items())) if made else node
