"""Rules that make join conditions cheaper: equalities become keys, and conditions on one side move below the join."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import conjunction, conjuncts
from dsms.planner.optimizer.algebra.split import filtered, reads_only, split
from operators.expressions import Call, Column, Expression

Pair = tuple[str, str]


def equality_to_key(node: logical.Node) -> logical.Node | None:
    """σ_{a=b}(A × B) = A ⋈_{a=b} B, if a and b are columns of the same type, which is not a float.

    NULL equals nothing in a = b, so the join must not have keys with `nulls_equal`. Floats are excluded because 0.0 and
    -0.0 are equal and have two encodings. PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.Join() as join, predicate) if join.outer == "none" and _nulls_differ(join):
            pairs, rest = _split_equalities(join, predicate)
            return filtered(_with_keys(join, pairs), rest) if pairs else None
        case logical.Join(residual=Call() as residual) if _nulls_differ(node):
            pairs, rest = _split_equalities(node, residual)
            return replace(_with_keys(node, pairs), residual=rest) if pairs else None
    return None


def _nulls_differ(join: logical.Join) -> bool:
    return not (join.on and join.nulls_equal)


def _with_keys(join: logical.Join, pairs: list[Pair]) -> logical.Join:
    return replace(join, on=(*join.on, *(pair for pair in pairs if pair not in join.on)), nulls_equal=False)


def _split_equalities(join: logical.Join, predicate: Expression) -> tuple[list[Pair], Expression | None]:
    """The pairs of columns that a predicate compares for equality, and the conjunction of the other conjuncts."""
    left, right = schema(join.left), schema(join.right)
    pairs = [(part, _equal_columns(part, left, right)) for part in conjuncts(predicate)]
    return [pair for _, pair in pairs if pair], conjunction(part for part, pair in pairs if not pair)


def _equal_columns(part: Expression, left: pa.Schema, right: pa.Schema) -> Pair | None:
    match part:
        case Call("equal", (Column(first, type_), Column(second, other_type))):
            if type_ != other_type or pa.types.is_floating(type_):
                return None
            if first in left.names and second in right.names:
                return first, second
            if second in left.names and first in right.names:
                return second, first
    return None


def residual_through_join(node: logical.Node) -> logical.Node | None:
    """A ⋈_{p∧q} B = σ_p(A) ⋈_q B, if p is total and reads only A. In an outer join, A must be the padded side.

    A row of the preserved side that fails a condition stays in the result, padded, so the condition cannot move to that
    side. Conditions can move to both sides of a semi-join, but only to the right side of an anti-join.
    PIPES lemma 10.2; CQL section 7.2.
    """
    if not isinstance(node, logical.Join | logical.SemiJoin) or node.residual is None:
        return None
    left, right = _may_filter(node)
    to_left, rest = split(node.residual, reads_only(schema(node.left).names if left else []))
    to_right, staying = split(rest, reads_only(schema(node.right).names if right else []))
    if to_left is None and to_right is None:
        return None
    return replace(node, left=filtered(node.left, to_left), right=filtered(node.right, to_right), residual=staying)


def _may_filter(node: logical.Join | logical.SemiJoin) -> tuple[bool, bool]:
    """Whether a condition on the left side may become a filter of that side, and the same for the right side."""
    if isinstance(node, logical.SemiJoin):
        return not node.anti, True
    return node.outer in ("none", "right"), node.outer in ("none", "left")
