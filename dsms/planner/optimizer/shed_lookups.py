"""Lookups: joins and semi-joins with at most one row for each record of a stream, so that their rows are kept or
dropped independently of each other.

A Shed is below the lookups of a query, on the side of the stream. The lookups pass on the shares of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.properties import inputs, keys
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_origin import origin
from operators.expressions import Column, columns
from operators.streams.shed import SHARE

_SHARE = Column(SHARE, pa.float64(), nullable=False)


@dataclass(frozen=True)
class Lookup:
    """A join of `stream` with a relation that has at most one row for each row of `stream` at every instant. The
    columns `by` of `stream` determine which row of the relation is its partner, and whether the row is in the result.
    The result has all rows of `stream`, or with `selects` some of them."""

    stream: logical.Node
    by: tuple[str, ...]
    selects: bool


def lookup_of(node: logical.Node) -> Lookup | None:
    """The node as a lookup; None if it is not known to be one.

    In an equi-join, the columns that are compared contain a key of the relation. Rows of the relation without a partner
    are not in the result. An as-of join takes one partner for each row. A semi-join selects rows of its left side.
    """
    match node:
        case logical.SemiJoin():
            return _lookup(node, node.left, [name for name, _ in node.on], selects=True)
        case logical.AsofJoin():
            by = (*(left for left, _ in node.on), node.left_time)
            return Lookup(node.left, tuple(dict.fromkeys(by)), not node.outer)
        case logical.Join() if node.outer in ("none", "left") and _is_key(node.right, [name for _, name in node.on]):
            return _lookup(node, node.left, [name for name, _ in node.on], selects=node.outer == "none")
        case logical.Join() if node.outer in ("none", "right") and _is_key(node.left, [name for name, _ in node.on]):
            return _lookup(node, node.right, [name for _, name in node.on], selects=node.outer == "none")
    return None


def _lookup(
    join: logical.Join | logical.SemiJoin, stream: logical.Node, compared: list[str], *, selects: bool
) -> Lookup:
    residual = columns(join.residual) if join.residual is not None else frozenset()
    by = (*compared, *(name for name in schema(stream).names if name in residual))
    return Lookup(stream, tuple(dict.fromkeys(by)), selects)


def _is_key(relation: logical.Node, compared: list[str]) -> bool:
    key = keys(relation)
    return bool(key) and set(key) <= set(compared)


def stream_below(node: logical.Node) -> logical.Node:
    """The stream's side of the lowest lookup of a plan; the plan itself if it has no lookups."""
    stream = node
    while (below := _below(node)) is not None:
        stream = stream if isinstance(node, logical.Filter | logical.Project) else below
        node = below
    return stream


def _below(node: logical.Node) -> logical.Node | None:
    """The input from which a filter, a projection or a lookup has its rows; None for other nodes."""
    if isinstance(node, logical.Filter | logical.Project):
        return node.input
    lookup = lookup_of(node)
    return None if lookup is None else lookup.stream


def with_shed(node: logical.Node, stream: logical.Node, shed: logical.Node) -> logical.Node:
    """The plan with `shed` in place of `stream`, its `stream_below`; the shares are among its columns."""
    below = _below(node)
    if node is stream or below is None:
        return shed
    inputs_above = tuple(with_shed(below, stream, shed) if side is below else side for side in inputs(node))
    above = with_inputs(node, inputs_above)
    return replace(above, outputs=(*above.outputs, (SHARE, _SHARE))) if isinstance(above, logical.Project) else above


def stream_origin(node: logical.Node, name: str) -> tuple[logical.Node, str] | None:
    """`origin`, also through lookups: the input that has the column, and its name there."""
    lookup = lookup_of(node)
    if lookup is None:
        return origin(node, name)
    return (lookup.stream, name) if name in schema(lookup.stream).names else None
