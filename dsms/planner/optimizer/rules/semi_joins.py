"""Rules that replace semi-joins by cheaper semi-joins or by joins."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.properties import keys
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.column_projections import order_columns


def semi_join_of_distinct(node: logical.Node) -> logical.Node | None:
    """A ⋉ δ(B) = A ⋉ B and A ▷ δ(B) = A ▷ B, because the number of partners of a row makes no difference.

    CQL section 7.2; PIPES lemma 10.2.
    """
    match node:
        case logical.SemiJoin(right=logical.Distinct(below)):
            return replace(node, right=below)
    return None


def semi_join_to_join(node: logical.Node) -> logical.Node | None:
    """A ⋉ B = π_A(A ⋈ B), if the compared columns contain a key of B, and A and B have no column name in common.

    Then each row of A has at most one partner, so multiplicities stay. Unlike the semi-join, the join need not compute
    the distinct keys of B. CQL section 7.2.
    """
    match node:
        case logical.SemiJoin(left, right, on, residual, False, nulls_equal) if _has_one_partner(node):
            join = logical.Join(left, right, on, residual, nulls_equal=nulls_equal)
            return order_columns(join, schema(left).names)
    return None


def _has_one_partner(node: logical.SemiJoin) -> bool:
    key, compared = keys(node.right), {theirs for _, theirs in node.on}
    disjoint = set(schema(node.left).names).isdisjoint(schema(node.right).names)
    return disjoint and bool(key) and set(key) <= compared
