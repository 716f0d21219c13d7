"""Filters below duplicate elimination."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import agreed, sink


def filter_through_distinct(node: logical.Node) -> logical.Node | None:
    """σ_p(δ(A)) = δ(σ_p(A)), if p is total. PIPES lemma 10.2; CQL section 7.2."""
    match node:
        case logical.Filter(logical.Distinct(input=below) as found):
            return sink(node, below, agreed(schema(below).names), lambda new: replace(found, input=new))
    return None
