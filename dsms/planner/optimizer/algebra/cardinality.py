"""A rough estimate of the number of rows of a relation."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import inputs

_STREAM, _KEYED, _FEW = 100_000.0, 10_000.0, 100.0
_FILTERED, _WINDOWED, _GROUPED = 0.3, 0.1, 0.5


def estimated_rows(node: logical.Node) -> float:
    """The estimated number of rows of a relation. It follows from the shape of the plan alone, not from measurements,
    so every process orders the joins of equal plans in the same way.

    Unbounded streams are the largest, then keyed relations; filters and windows reduce them.
    """
    match node:
        case logical.StreamScan(keys=keys):
            return _KEYED if keys else _STREAM
        case logical.Recurrence():
            return _KEYED
        case logical.Values(rows=rows):
            return float(len(rows))
        case logical.TimeWindow(below, None):
            return estimated_rows(below)
        case logical.RowWindow() | logical.TopK():
            return _FEW
        case logical.Sample(below, percent):
            return estimated_rows(below) * percent / 100
        case logical.Join() if not node.on:
            return estimated_rows(node.left) * estimated_rows(node.right)
    return max(estimated_rows(below) for below in inputs(node)) * _selectivity(node)


def _selectivity(node: logical.Node) -> float:
    """The fraction of its input's rows that a node keeps."""
    match node:
        case logical.Filter() | logical.SemiJoin():
            return _FILTERED
        case logical.TimeWindow() | logical.NowFilter():
            return _WINDOWED
        case logical.GroupBy() | logical.Distinct():
            return _GROUPED
    return 1.0
