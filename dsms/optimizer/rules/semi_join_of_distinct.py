"""Semi-joins with distinct rows."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical


def semi_join_of_distinct(node: logical.Node) -> logical.Node | None:
    """A ⋉ δ(B) = A ⋉ B and A ▷ δ(B) = A ▷ B: one partner is as good as two. CQL section 7.2; PIPES lemma 10.2."""
    match node:
        case logical.SemiJoin(right=logical.Distinct(below)):
            return replace(node, right=below)
    return None
