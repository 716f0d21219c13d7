"""One form for predicates that say the same."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.optimizer.rules.conjuncts import conjunction, conjuncts, total
from operators.expressions import MIRRORED, Call, Expression, Literal, to_sql

_MIRRORED = {**MIRRORED, "not_equal": "not_equal"}


def order_conjuncts(node: logical.Node) -> logical.Node | None:
    """σ_{p∧q}(A) = σ_{q∧p}(A), and so for joins; `1 < x` is `x > 1`: equal plans get equal texts and run once.

    If p and q are total: otherwise the first fault of a row is another one. PIPES chapter 10, common subexpressions.
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
    mirrored = [_mirrored(one) for one in conjuncts(predicate)]
    found = conjunction(sorted(mirrored, key=lambda one: (to_sql(one), fingerprint(one))))
    assert found is not None
    return found


def _mirrored(part: Expression) -> Expression:
    """A comparison with the literal on the right, an equality of two others in the order of their texts."""
    match part:
        case Call(name, (left, right)) if name in _MIRRORED and (_literal(left), to_sql(left)) > (
            _literal(right),
            to_sql(right),
        ):
            if _literal(left) or name in ("equal", "not_equal"):
                return replace(part, function=_MIRRORED[name], arguments=(right, left))
    return part


def _literal(one: Expression) -> bool:
    return isinstance(one, Literal)
