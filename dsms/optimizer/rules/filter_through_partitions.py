"""Filters below operators that work partition by partition."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.optimizer.rules.split import agreed, sink


def filter_through_partitions(node: logical.Node) -> logical.Node | None:
    """σ_p(Θ_K(A)) = Θ_K(σ_p(A)) for top-k, OVER, sessions and row windows of each K, if p is total and reads K alone.

    A partition is kept or removed as a whole. Otherwise p decides which rows are counted: not valid for σ and a count
    window. PIPES definition 8.19.
    """
    if not isinstance(node, logical.Filter):
        return None
    found = node.input
    if not isinstance(found, logical.TopK | logical.WindowFunctions | logical.Session | logical.RowWindow):
        return None
    names = _partition(found)
    return sink(node, found.input, agreed(names), lambda new: replace(found, input=new)) if names else None


def _partition(node: logical.TopK | logical.WindowFunctions | logical.Session | logical.RowWindow) -> frozenset[str]:
    """The columns that every partition of the node agrees in."""
    if isinstance(node, logical.WindowFunctions):
        return frozenset.intersection(*(frozenset(call.partition) for call in node.calls))
    return frozenset(node.partition)
