"""Semi-joins where there is at most one partner."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.optimizer.rules.identity import in_order


def semi_join_to_join(node: logical.Node) -> logical.Node | None:
    """A ⋉ B = π_A(A ⋈ B), if a key of B is among the compared columns and no name of A is one of B.

    Each row of A then has at most one partner, so multiplicities stay. The join needs no distinct keys.
    CQL section 7.2.
    """
    match node:
        case logical.SemiJoin(left, right, on, residual, False, nulls_equal) if _unique(node):
            joined = logical.Join(left, right, on, residual, nulls_equal=nulls_equal)
            return in_order(joined, schema(left).names)
    return None


def _unique(node: logical.SemiJoin) -> bool:
    key, compared = keys(node.right), {theirs for _, theirs in node.on}
    apart = set(schema(node.left).names).isdisjoint(schema(node.right).names)
    return apart and bool(key) and set(key) <= compared
