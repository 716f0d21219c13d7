"""Conditions of a join on one of its sides, below it."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.split import filtered, split, within


def residual_through_join(node: logical.Node) -> logical.Node | None:
    """A ⋈_{p∧q} B = σ_p(A) ⋈_q B, if p is total and reads A alone; of an outer join, if A is the padded side.

    A row of the kept side for which its own condition fails stays, padded. The right side of a semi- and of an
    anti-join is as a padded side; the left side only that of a semi-join. PIPES lemma 10.2; CQL section 7.2.
    """
    if not isinstance(node, logical.Join | logical.SemiJoin) or node.residual is None:
        return None
    left, right = _sinks(node)
    to_left, rest = split(node.residual, within(schema(node.left).names if left else []))
    to_right, stays = split(rest, within(schema(node.right).names if right else []))
    if to_left is None and to_right is None:
        return None
    return replace(node, left=filtered(node.left, to_left), right=filtered(node.right, to_right), residual=stays)


def _sinks(node: logical.Join | logical.SemiJoin) -> tuple[bool, bool]:
    if isinstance(node, logical.SemiJoin):
        return not node.anti, True
    return node.outer in ("none", "right"), node.outer in ("none", "left")
