"""Projections to columns as they are."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from operators.expressions import Column, Expression, column


def as_they_are(columns: pa.Schema) -> tuple[tuple[str, Expression], ...]:
    """Each column under its own name."""
    return tuple((one.name, column(one)) for one in columns)


def kept(node: logical.Node, names: Collection[str]) -> logical.Node:
    """π to the columns among `names`, in their order; the node itself where it has no other."""
    columns = schema(node)
    if set(columns.names) <= set(names):
        return node
    return logical.Project(node, as_they_are(pa.schema([one for one in columns if one.name in names])))


def in_order(node: logical.Node, names: list[str]) -> logical.Node:
    """π to `names` in this order; the node itself where it has them so."""
    columns = schema(node)
    if columns.names == names:
        return node
    return logical.Project(node, as_they_are(pa.schema([columns.field(name) for name in names])))


def renamed(node: logical.Project) -> bool:
    """Whether every output is a column."""
    return all(isinstance(output, Column) for _, output in node.outputs)
