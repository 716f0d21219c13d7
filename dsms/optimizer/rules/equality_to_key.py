"""Equalities of columns as keys of a join."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.schema import schema
from dsms.optimizer.rules.conjuncts import conjunction, conjuncts
from dsms.optimizer.rules.split import filtered
from operators.expressions import Call, Column, Expression

Pair = tuple[str, str]


def equality_to_key(node: logical.Node) -> logical.Node | None:
    """σ_{a=b}(A × B) = A ⋈_{a=b} B, if a and b are columns of one type that is no float.

    NULL equals nothing, so the join must not take NULLs for equal. 0.0 and -0.0 are equal and have two encodings.
    PIPES lemma 10.2; CQL section 7.2.
    """
    match node:
        case logical.Filter(logical.Join() as join, predicate) if join.outer == "none" and _strict(join):
            found, stays = _keys(join, predicate)
            return filtered(_with_keys(join, found), stays) if found else None
        case logical.Join(residual=Call() as residual) if _strict(node):
            found, stays = _keys(node, residual)
            return replace(_with_keys(node, found), residual=stays) if found else None
    return None


def _strict(join: logical.Join) -> bool:
    return not (join.on and join.nulls_equal)


def _with_keys(join: logical.Join, found: list[Pair]) -> logical.Join:
    return replace(join, on=(*join.on, *(pair for pair in found if pair not in join.on)), nulls_equal=False)


def _keys(join: logical.Join, predicate: Expression) -> tuple[list[Pair], Expression | None]:
    parts = conjuncts(predicate)
    left, right = schema(join.left), schema(join.right)
    pairs = {number: pair for number, one in enumerate(parts) if (pair := _pair(one, left, right))}
    return list(pairs.values()), conjunction(one for number, one in enumerate(parts) if number not in pairs)


def _pair(part: Expression, left: pa.Schema, right: pa.Schema) -> Pair | None:
    match part:
        case Call("equal", (Column(one, kind), Column(other, same))) if kind == same and not pa.types.is_floating(kind):
            if one in left.names and other in right.names:
                return one, other
            if other in left.names and one in right.names:
                return other, one
    return None
