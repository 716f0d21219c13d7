"""Filters below grouping."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.optimizer.rules.split import agreed, sink


def filter_through_group_by(node: logical.Node) -> logical.Node | None:
    """σ_p(γ_K(A)) = γ_K(σ_p(A)), if p is total and reads columns of K alone. PIPES lemma 10.2; CQL section 7.2.

    A group is kept or removed as a whole. Without keys there is one row even of nothing, and p reads no column of K.
    """
    match node:
        case logical.Filter(logical.GroupBy(input=below) as found) if found.keys:
            return sink(node, below, agreed(found.keys), lambda new: replace(found, input=new))
    return None
