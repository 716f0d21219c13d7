"""Filters below as-of joins."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import sink, within


def filter_through_asof_join(node: logical.Node) -> logical.Node | None:
    """σ_p(asof(A, B)) = asof(σ_p(A), B), if p is total and reads A alone: each row of A has its partner by itself.

    p on B stays: below, another row of B would become the nearest one.
    """
    match node:
        case logical.Filter(logical.AsofJoin(left=below) as found):
            return sink(node, below, within(schema(below).names), lambda new: replace(found, left=new))
    return None
