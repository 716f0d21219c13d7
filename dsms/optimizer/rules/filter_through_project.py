"""Filters below projections."""

from __future__ import annotations

from dsms.model import logical
from dsms.optimizer.rules.substitute import substitute


def filter_through_project(node: logical.Node) -> logical.Node | None:
    """σ_p(π_f(A)) = π_f(σ_{p∘f}(A)). PIPES lemma 10.2; CQL section 7.2, for a map of relational functions.

    A row for which f is in fault is in neither; p∘f is in fault only where f is.
    """
    match node:
        case logical.Filter(logical.Project(below, outputs), predicate):
            return logical.Project(logical.Filter(below, substitute(predicate, dict(outputs))), outputs)
    return None
