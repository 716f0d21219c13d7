"""Rules that merge adjacent operators of the same kind."""

from __future__ import annotations

from collections import Counter

from dsms.model import logical
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts, total
from dsms.planner.optimizer.algebra.substitute import substitute
from operators.expressions import Call, Column, Expression, call, walk


def merge_filters(node: logical.Node) -> logical.Node | None:
    """σ_q(σ_p(A)) = σ_{p∧q}(A), if p is total.

    If q is not total, p becomes `p IS TRUE`; otherwise q could cause a fault on a row where p is NULL.
    PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.Filter(below, inner), outer) if total(inner):
            first = inner if total(outer) or not inner.nullable else call("is_true", inner)
            return logical.Filter(below, _both(first, outer))
    return None


def _both(first: Expression, second: Expression) -> Expression:
    both = conjunction([*conjuncts(first), *conjuncts(second)])
    assert both is not None
    return both


def merge_projects(node: logical.Node) -> logical.Node | None:
    """π_f(π_g(A)) = π_{f∘g}(A), if f reads no computed output of g twice, and each output of g is total or an output of
    f.

    If an output of g that is not total were inside an expression of f, its fault could be hidden.
    PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Project(logical.Project(below, inner), outer) if _can_merge(outer, dict(inner)):
            values = dict(inner)
            return logical.Project(below, tuple((name, substitute(output, values)) for name, output in outer))
    return None


def _can_merge(outer: tuple[tuple[str, Expression], ...], inner: dict[str, Expression]) -> bool:
    reads = Counter(part.name for _, output in outer for part in walk(output) if isinstance(part, Column))
    passed_on = {output.name for _, output in outer if isinstance(output, Column)}
    once = all(reads[name] < 2 for name, value in inner.items() if isinstance(value, Call))
    return once and all(name in passed_on or total(value) for name, value in inner.items())


def union_of_windows(node: logical.Node) -> logical.Node | None:
    """ω_w(S1) ⊎ ω_w(S2) = ω_w(S1 ⊎ S2), if the windows have equal lengths and slides. PIPES rule 10.10.

    It does not hold for row windows, because a single window would count the rows of both streams.
    """
    match node:
        case logical.Union(branches):
            windows = [branch for branch in branches if isinstance(branch, logical.TimeWindow)]
            if len(windows) == len(branches) and len({(window.length, window.slide) for window in windows}) == 1:
                below = logical.Union(tuple(window.input for window in windows))
                return logical.TimeWindow(below, windows[0].length, windows[0].slide)
    return None
