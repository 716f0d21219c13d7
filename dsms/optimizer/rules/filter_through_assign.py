"""Filters below the assignment of windows."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import sink, within


def filter_through_assign(node: logical.Node) -> logical.Node | None:
    """σ_p(assign(A)) = assign(σ_p(A)), if p is total and does not read the windows.

    PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.Assign(input=below) as found):
            return sink(node, below, within(schema(below).names), lambda new: replace(found, input=new))
    return None
