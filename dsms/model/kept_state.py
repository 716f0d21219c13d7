"""Which nodes of a plan keep state: a part of a plan that does is worth sharing, one that does not is not."""

from __future__ import annotations

from typing import assert_never

from dsms.model import logical
from dsms.model.properties import inputs, keys, walk


def keeps_state(node: logical.Node) -> bool:
    """Whether the operators of a node, without those of its inputs, have traces.

    Buffers are not counted: the reader of a window holds its rows until they end, and the reader of several sources
    waits for the slowest of them. A periodic synchronisation is counted, because its whole effect is to hold changes
    until the next point. A node kind that is missing here fails mypy; a wrong answer fails
    `tests/dsms/planner/physical/test_kept_state.py`, which lowers a node of every kind.
    """
    match node:
        case logical.StreamScan():
            return bool(node.keys or node.promises)
        case logical.Restamp():
            return bool(keys(node.input))
        case logical.Apply():
            return bool(node.function.traces())
        case logical.ToStream():
            return node.kind == "rstream"
        case (
            logical.Join()
            | logical.SemiJoin()
            | logical.AsofJoin()
            | logical.Distinct()
            | logical.SetOperation()
            | logical.Recursion()
            | logical.GroupBy()
            | logical.TopK()
            | logical.WindowFunctions()
            | logical.RowWindow()
            | logical.Session()
            | logical.Sync()
            | logical.Final()
        ):
            return True
        case (
            logical.Values()
            | logical.Filter()
            | logical.Project()
            | logical.Union()
            | logical.Unnest()
            | logical.Sample()
            | logical.Shed()
            | logical.TimeWindow()
            | logical.Assign()
            | logical.NowFilter()
            | logical.Members()
            | logical.Recurrence()
        ):
            return False
        case _:
            assert_never(node)


def with_own_state(node: logical.Node) -> list[logical.Node]:
    """The nodes of a plan that keep state, parents first, without its scans: a scan is shared whenever it is equal."""
    return [below for below in walk(node) if inputs(below) and keeps_state(below)]
