"""What is the same on every row, computed once."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import polars as pl
import pyarrow as pa

from dsms.model import logical
from operators.expressions import Call, Expression, Literal, evaluate

_ROW = pl.DataFrame({"row": [0]})
_FOLDED = (
    pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_string,
    pa.types.is_date, pa.types.is_timestamp,
)  # fmt: skip


def fold_constants(node: logical.Node) -> logical.Node | None:
    """σ_{x > 10 * 60}(A) = σ_{x > 600}(A), and so for projections and joins: queries that write a constant as a
    computation are equal to, or run as one with, those that do not.

    If it has a value: `1 / 0` stays as it is, since each row that asks for it is in fault.
    """
    match node:
        case logical.Filter(_, predicate):
            found: logical.Node = replace(node, predicate=_folded(predicate))
        case logical.Project(_, outputs):
            found = replace(node, outputs=tuple((name, _folded(one)) for name, one in outputs))
        case logical.Join() | logical.SemiJoin() if node.residual is not None:
            found = replace(node, residual=_folded(node.residual))
        case _:
            return None
    return None if found == node else found


@lru_cache(maxsize=4096)
def _folded(expression: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    parts = tuple(map(_folded, expression.arguments))
    call = replace(expression, arguments=parts)
    if not parts or not all(isinstance(one, Literal) for one in parts) or not _may_be(expression.type):
        return call
    values, faults = evaluate(_ROW, {"value": call})
    return call if faults[0] is not None else Literal(values.item(), expression.type)


def _may_be(type_: pa.DataType) -> bool:
    return any(one(type_) for one in _FOLDED)
