"""Groups from finer groups: γ_K(A) over γ_L(A), where the keys K are among L or computed from them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.optimizer.algebra.conjuncts import conjunction
from dsms.optimizer.algebra.split import filtered
from dsms.optimizer.view_matching.core_columns import all_over, given
from dsms.optimizer.view_matching.remaining_conditions import remaining
from dsms.optimizer.view_matching.skinned_form import signature, skinned_form
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Column, Expression, Literal, call

#: How the results of finer groups are put together. What may overflow in a part and not as a whole is not.
_TOGETHER = {
    "count": "sum", "count_if": "sum", "sum": "sum", "min": "min", "max": "max", "bool_and": "bool_and",
    "bool_or": "bool_or",
}  # fmt: skip
_SAFE_BITS, _SAFE_DIGITS = 32, 27
_ZERO = Literal(0, pa.int64())


def rolled_up(wanted: logical.GroupBy, finer: logical.GroupBy) -> logical.Node | None:
    """`wanted` over the rows of `finer`; None where that cannot be."""
    asked, held = skinned_form(wanted.input), skinned_form(finer.input)
    if asked.cores != held.cores or fingerprint(asked.points) != fingerprint(held.points):
        return None
    left = remaining(asked.conditions, held.conditions)
    columns = given({key: held.outputs[key] for key in finer.keys})
    known = {signature(one, held.outputs): one for one in finer.aggregates}
    parts = [known.get(signature(one, asked.outputs)) for one in wanted.aggregates]
    keys = all_over([asked.outputs[key] for key in wanted.keys], columns)
    conditions = None if left is None else all_over(sorted(left, key=repr), columns)
    if keys is None or conditions is None or not all(_adds_up(one, finer) for one in parts):
        return None
    rows = filtered(finer, conjunction(conditions))
    found = [one for one in parts if one is not None]
    return _grouped(wanted, rows, list(zip(wanted.keys, keys, strict=True)), found)


def _adds_up(part: Aggregate | None, finer: logical.GroupBy) -> bool:
    if part is None or part.function not in _TOGETHER or part.distinct:
        return False
    return part.function != "sum" or _safe(schema(finer.input).field(part.arguments[0]).type)


def _safe(kind: pa.DataType) -> bool:
    """Whether no sum of a part can be out of range while the whole is not: it would take 2^31 rows of the greatest."""
    if pa.types.is_integer(kind):
        return bool(kind.bit_width <= _SAFE_BITS)
    return isinstance(kind, pa.Decimal128Type) and kind.precision <= _SAFE_DIGITS


def _grouped(
    wanted: logical.GroupBy, rows: logical.Node, keys: list[tuple[str, Expression]], parts: list[Aggregate]
) -> logical.Node:
    pairs = list(zip(wanted.aggregates, parts, strict=True))
    taken = [(one.name, Column(part.name, part.type, part.nullable)) for one, part in pairs]
    together = tuple(Aggregate(one.name, _TOGETHER[part.function], (one.name,), one.type) for one, part in pairs)
    grouped = replace(wanted, input=logical.Project(rows, (*keys, *taken)), aggregates=together)
    named = tuple((key, Column(key, one.type, one.nullable)) for key, one in keys)
    return logical.Project(grouped, (*named, *map(_result, wanted.aggregates)))


def _result(aggregate: Aggregate) -> tuple[str, Expression]:
    """What was counted is 0 where there is nothing to be added."""
    found = Column(aggregate.name, aggregate.type)
    if aggregate.function in ("count", "count_if"):
        return aggregate.name, call("coalesce", found, _ZERO)
    return aggregate.name, found
