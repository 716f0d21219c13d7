"""Filters below predicates over Now."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import sink, within


def filter_through_now_filter(node: logical.Node) -> logical.Node | None:
    """σ_p(σ_Now(A)) = σ_Now(σ_p(A)), if p is total: selections commute. PIPES lemma 10.2; SyncSQL section 3.2."""
    match node:
        case logical.Filter(logical.NowFilter(input=below) as found):
            return sink(node, below, within(schema(below).names), lambda new: replace(found, input=new))
    return None
