"""The rule that brings predicates into a normal form, in which some equivalent predicates are equal."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from operators.expressions import MIRRORED, Call, Expression, Literal, to_sql

_MIRRORED = {**MIRRORED, "not_equal": "not_equal"}
_SYMMETRIC = ("equal", "not_equal")


def order_conjuncts(node: logical.Node) -> logical.Node | None:
    """σ_{p∧q}(A) = σ_{q∧p}(A), and the same for joins; `1 < x` becomes `x > 1`. Plans that differ only in this become
    equal, and run once.

    p and q must be total; otherwise another fault of a row could come first. PIPES chapter 10, common
    subexpressions.
    """
    if isinstance(node, logical.Filter):
        ordered = _ordered(node.predicate)
        return None if ordered == node.predicate else replace(node, predicate=ordered)
    if isinstance(node, logical.Join | logical.SemiJoin) and node.residual is not None:
        ordered = _ordered(node.residual)
        return None if ordered == node.residual else replace(node, residual=ordered)
    return None


def _ordered(predicate: Expression) -> Expression:
    if not total(predicate):
        return predicate
    parts = [_mirrored(part) for part in conjuncts(predicate)]
    ordered = conjunction(sorted(parts, key=lambda part: (to_sql(part), fingerprint(part))))
    assert ordered is not None
    return ordered


def _mirrored(part: Expression) -> Expression:
    """A comparison with its literal on the right; the operands of an (in)equality without one are ordered by text."""
    match part:
        case Call(name, (left, right)) if name in _MIRRORED and _rank(left) > _rank(right):
            if isinstance(left, Literal) or name in _SYMMETRIC:
                return replace(part, function=_MIRRORED[name], arguments=(right, left))
    return part


def _rank(operand: Expression) -> tuple[bool, str]:
    return isinstance(operand, Literal), to_sql(operand)
