"""Filters below joins."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import filtered, split, within


def filter_through_join(node: logical.Node) -> logical.Node | None:
    """σ_p(A ⋈ B) = σ_p(A) ⋈ B, if p is total and reads A alone; of an outer join, if A is the side whose rows are kept.

    p on the padded side would keep the rows of A whose partners it removes, padded. PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.Join() as join, predicate):
            left = schema(join.left).names if join.outer in ("none", "left") else []
            right = schema(join.right).names if join.outer in ("none", "right") else []
            to_left, rest = split(predicate, within(left))
            to_right, stays = split(rest, within(right))
            if to_left is None and to_right is None:
                return None
            below = replace(join, left=filtered(join.left, to_left), right=filtered(join.right, to_right))
            return filtered(below, stays)
    return None
