"""Filters below unions."""

from __future__ import annotations

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.substitute import substitute
from operators.expressions import Expression, column


def filter_through_union(node: logical.Node) -> logical.Node | None:
    """σ_p(A ⊎ B) = σ_p(A) ⊎ σ_p(B). PIPES rule 10.5."""
    match node:
        case logical.Filter(logical.Union(parts), predicate):
            names = schema(parts[0]).names
            return logical.Union(tuple(logical.Filter(one, over(predicate, names, one)) for one in parts))
    return None


def over(predicate: Expression, names: list[str], node: logical.Node) -> Expression:
    """A predicate over `names` as one over the columns at the same places of another input."""
    columns = zip(names, schema(node), strict=True)
    return substitute(predicate, {name: column(one) for name, one in columns})
