"""Two filters as one."""

from __future__ import annotations

from dsms.model import logical
from dsms.optimizer.rules.conjuncts import conjunction, conjuncts, total
from operators.expressions import Expression, call


def merge_filters(node: logical.Node) -> logical.Node | None:
    """σ_q(σ_p(A)) = σ_{p∧q}(A), if p is total.

    Where q can be in fault, a NULL of p must hide that: there p becomes `p IS TRUE`. PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.Filter(below, inner), outer) if total(inner):
            first = inner if total(outer) or not inner.nullable else call("is_true", inner)
            return logical.Filter(below, _both(first, outer))
    return None


def _both(first: Expression, then: Expression) -> Expression:
    both = conjunction([*conjuncts(first), *conjuncts(then)])
    assert both is not None
    return both
