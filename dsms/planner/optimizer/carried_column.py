"""Carries a column that is computed over a stream up through the operators that compute rows from single records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import unchanged
from operators.expressions import Column, Expression

#: An expression over the columns of a stream.
OverStream = Callable[[logical.StreamScan], Expression]


def with_carried_column(node: logical.Node, name: str, value: OverStream) -> logical.Node:
    """A plan over one stream, whose rows have the additional column `name`: the value of an expression over the
    columns of the stream."""
    return _carried(node, name, value)[0]


def _carried(node: logical.Node, name: str, value: OverStream) -> tuple[logical.Node, Column]:
    if isinstance(node, logical.StreamScan):
        expression = value(node)
        column = Column(name, expression.type)
        return logical.Project(node, (*unchanged(schema(node)), (name, expression))), column
    (below,) = inputs(node)
    carried, column = _carried(below, name, value)
    if isinstance(node, logical.Project):
        return replace(node, input=carried, outputs=(*node.outputs, (name, column))), column
    return with_inputs(node, (carried,)), column
