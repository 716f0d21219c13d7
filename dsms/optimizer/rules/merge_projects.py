"""Two projections as one."""

from __future__ import annotations

from collections import Counter

from dsms.model import logical
from dsms.optimizer.rules.conjuncts import total
from dsms.optimizer.rules.substitute import substitute
from operators.expressions import Call, Column, Expression, walk


def merge_projects(node: logical.Node) -> logical.Node | None:
    """π_f(π_g(A)) = π_{f∘g}(A), if what of g is not read is total and no call of g is read twice.

    An output of g that can be in fault must be read where its fault is not hidden: as an output of f itself.
    PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Project(logical.Project(below, inner), outer) if _merges(outer, dict(inner)):
            values = dict(inner)
            return logical.Project(below, tuple((name, substitute(one, values)) for name, one in outer))
    return None


def _merges(outer: tuple[tuple[str, Expression], ...], values: dict[str, Expression]) -> bool:
    reads = Counter(part.name for _, one in outer for part in walk(one) if isinstance(part, Column))
    shown = {one.name for _, one in outer if isinstance(one, Column)}
    once = all(reads[name] < 2 for name, value in values.items() if isinstance(value, Call))
    return once and all(name in shown or total(value) for name, value in values.items())
