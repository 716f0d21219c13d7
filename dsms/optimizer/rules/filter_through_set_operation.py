"""Filters below EXCEPT and INTERSECT."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.filter_through_union import over
from dsms.optimizer.rules.split import agreed, filtered, split


def filter_through_set_operation(node: logical.Node) -> logical.Node | None:
    """σ_p(A − B) = σ_p(A) − σ_p(B), and so for ∩ and for multiplicities, if p is total.

    Equal rows agree in p, so p keeps or removes all occurrences of a row on both sides.
    PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.SetOperation() as both, predicate):
            names = schema(both.left).names
            moved, stays = split(predicate, agreed(names))
            if moved is None:
                return None
            sides = [logical.Filter(one, over(moved, names, one)) for one in (both.left, both.right)]
            return filtered(replace(both, left=sides[0], right=sides[1]), stays)
    return None
