"""Builds projections that only keep, order or rename columns of their input."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from operators.expressions import Column, Expression, column


def unchanged(columns: pa.Schema) -> tuple[tuple[str, Expression], ...]:
    """The outputs of a projection that keeps each column under its own name."""
    return tuple((field.name, column(field)) for field in columns)


def keep_columns(node: logical.Node, names: Collection[str]) -> logical.Node:
    """π to the columns that are in `names`, in the order of the node; the node itself if these are all its columns."""
    columns = schema(node)
    if set(columns.names) <= set(names):
        return node
    return logical.Project(node, unchanged(pa.schema([field for field in columns if field.name in names])))


def order_columns(node: logical.Node, names: list[str]) -> logical.Node:
    """π to `names` in this order; the node itself if its columns are already these, in this order."""
    columns = schema(node)
    if columns.names == names:
        return node
    return logical.Project(node, unchanged(pa.schema([columns.field(name) for name in names])))


def computes_nothing(node: logical.Project) -> bool:
    """Whether every output is a column of the input, perhaps under another name."""
    return all(isinstance(output, Column) for _, output in node.outputs)
