"""Filters below unnesting."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import sink, within


def filter_through_unnest(node: logical.Node) -> logical.Node | None:
    """σ_p(μ(A)) = μ(σ_p(A)), if p is total and does not read the element. PIPES lemma 10.2; CQL section 7.2."""
    match node:
        case logical.Filter(logical.Unnest(input=below) as found):
            return sink(node, below, within(schema(below).names), lambda new: replace(found, input=new))
    return None
