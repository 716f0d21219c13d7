"""The rule that computes constant expressions at planning time."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import polars as pl
import pyarrow as pa

from dsms.model import logical
from operators.core.distinct_type import DistinctType
from operators.expressions import LONGEST_CONSTANT, Call, DefinedCall, Expression, Literal, evaluate

_ONE_ROW = pl.DataFrame({"row": [0]})
_FOLDED_TYPES = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def fold_constants(node: logical.Node) -> logical.Node | None:
    """σ_{x > 10 * 60}(A) = σ_{x > 600}(A), and the same for projections and joins. A query that computes a constant
    gets the plan of a query that contains the result; so both share a plan, or belong to one family.

    An expression without a value, such as `1 / 0`, is not folded, because each row on which it is evaluated must be in
    fault. To keep planning cheap, an expression that computes a value of more than `LONGEST_CONSTANT` bytes is not
    folded either.
    """
    match node:
        case logical.Filter(_, predicate):
            folded: logical.Node = replace(node, predicate=_folded(predicate))
        case logical.Project(_, outputs):
            folded = replace(node, outputs=tuple((name, _folded(output)) for name, output in outputs))
        case logical.Join() | logical.SemiJoin() if node.residual is not None:
            folded = replace(node, residual=_folded(node.residual))
        case _:
            return None
    return None if folded == node else folded


@lru_cache(maxsize=4096)
def _folded(expression: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(map(_folded, expression.arguments))
    call = replace(expression, arguments=arguments)
    constant = bool(arguments) and all(isinstance(argument, Literal) for argument in arguments)
    if not constant or isinstance(call, DefinedCall) or not _can_be_literal(expression.type):
        return call
    values, faults = evaluate(_ONE_ROW, {"value": call}, LONGEST_CONSTANT)
    return call if faults[0] is not None else Literal(values.item(), expression.type)


def _can_be_literal(type_: pa.DataType) -> bool:
    return isinstance(type_, DistinctType) or any(is_type(type_) for is_type in _FOLDED_TYPES)
