"""Filters below time windows."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import sink, within


def filter_through_time_window(node: logical.Node) -> logical.Node | None:
    """σ_p(ω_w(S)) = ω_w(σ_p(S)), if p is total. PIPES rule 10.8; CQL section 7.2.2."""
    match node:
        case logical.Filter(logical.TimeWindow(input=below) as found):
            return sink(node, below, within(schema(below).names), lambda new: replace(found, input=new))
    return None
