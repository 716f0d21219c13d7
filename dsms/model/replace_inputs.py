"""Replaces the inputs of a plan node."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import inputs


def with_inputs(node: logical.Node, below: tuple[logical.Node, ...]) -> logical.Node:
    """The node over other inputs, in the order of `properties.inputs`; the node itself if they are its current inputs.

    >>> import pyarrow as pa
    >>> first, second = (logical.Values(pa.schema([("x", pa.int64())]), ((x,),)) for x in (1, 2))
    >>> with_inputs(logical.Union((first, first)), (first, second)) == logical.Union((first, second))
    True
    """
    before = inputs(node)
    assert len(before) == len(below)
    if all(current is other for current, other in zip(before, below, strict=True)):
        return node
    return _with_new_inputs(node, below)


def _with_new_inputs(node: logical.Node, below: tuple[logical.Node, ...]) -> logical.Node:
    match node:
        case logical.StreamScan() | logical.Values() | logical.Recurrence():
            return node
        case logical.Union() | logical.Recursion():
            return replace(node, inputs=below)
        case logical.Join() | logical.SemiJoin() | logical.SetOperation() | logical.AsofJoin():
            return replace(node, left=below[0], right=below[1])
        case logical.Sync() if len(below) == 2:
            return replace(node, input=below[0], points=below[1])
        case _:
            return replace(node, input=below[0])
