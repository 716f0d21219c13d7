"""Filters below semi- and anti-joins."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import sink, within


def filter_through_semi_join(node: logical.Node) -> logical.Node | None:
    """σ_p(A ⋉ B) = σ_p(A) ⋉ B and σ_p(A ▷ B) = σ_p(A) ▷ B, if p is total. PIPES lemma 10.2; CQL section 7.2."""
    match node:
        case logical.Filter(logical.SemiJoin(left=below) as found):
            return sink(node, below, within(schema(below).names), lambda new: replace(found, left=new))
    return None
