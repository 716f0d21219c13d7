"""Computes groups from finer groups: γ_K(A) from γ_L(A), where the keys K are keys of L or computed from them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.conjuncts import conjunction
from dsms.planner.optimizer.algebra.split import filtered
from dsms.planner.optimizer.view_matching.canonical_form import canonical_form, signature
from dsms.planner.optimizer.view_matching.core_columns import all_over, output_columns
from dsms.planner.optimizer.view_matching.implication import remaining
from operators.aggregates.aggregate import Aggregate
from operators.expressions import Column, Expression, Literal, call

#: For each aggregate that can be combined, the aggregate that combines the results of finer groups.
_COMBINED_BY = {
    "count": "sum",
    "count_if": "sum",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "bool_and": "bool_and",
    "bool_or": "bool_or",
}
#: Sums of integers and decimals up to these widths do not overflow.
_SAFE_BITS, _SAFE_DIGITS = 32, 27
_ZERO = Literal(0, pa.int64())


def roll_up(wanted: logical.GroupBy, finer: logical.GroupBy) -> logical.Node | None:
    """`wanted`, computed from the rows of `finer`; None if that is impossible."""
    needed, available = canonical_form(wanted.input), canonical_form(finer.input)
    if needed.cores != available.cores or fingerprint(needed.points) != fingerprint(available.points):
        return None
    rest = remaining(needed.conditions, available.conditions)
    columns = output_columns({key: available.outputs[key] for key in finer.keys})
    by_signature = {signature(aggregate, available.outputs): aggregate for aggregate in finer.aggregates}
    parts = [by_signature.get(signature(aggregate, needed.outputs)) for aggregate in wanted.aggregates]
    keys = all_over([needed.outputs[key] for key in wanted.keys], columns)
    conditions = None if rest is None else all_over(sorted(rest, key=repr), columns)
    combinable = [part for part in parts if part is not None and _can_combine(part, finer)]
    if keys is None or conditions is None or len(combinable) < len(parts):
        return None
    rows = filtered(finer, conjunction(conditions))
    return _combined(wanted, rows, list(zip(wanted.keys, keys, strict=True)), combinable)


def _can_combine(part: Aggregate, finer: logical.GroupBy) -> bool:
    if part.function not in _COMBINED_BY or part.distinct:
        return False
    return part.function != "sum" or _cannot_overflow(schema(finer.input).field(part.arguments[0]).type)


def _cannot_overflow(type_: pa.DataType) -> bool:
    """Whether the sum of a finer group cannot be out of range. It can be larger than the sum of the whole group,
    because values may be negative; but for these types, an overflow takes 2^31 rows of the greatest value.
    """
    if pa.types.is_integer(type_):
        return bool(type_.bit_width <= _SAFE_BITS)
    return isinstance(type_, pa.Decimal128Type) and type_.precision <= _SAFE_DIGITS


def _combined(
    wanted: logical.GroupBy, rows: logical.Node, keys: list[tuple[str, Expression]], parts: list[Aggregate]
) -> logical.Node:
    """The groups of `wanted` over the rows of finer groups; `parts` are the aggregates of the finer groups."""
    pairs = list(zip(wanted.aggregates, parts, strict=True))
    values = [(aggregate.name, Column(part.name, part.type, part.nullable)) for aggregate, part in pairs]
    aggregates = tuple(
        Aggregate(aggregate.name, _COMBINED_BY[part.function], (aggregate.name,), aggregate.type)
        for aggregate, part in pairs
    )
    grouped = replace(wanted, input=logical.Project(rows, (*keys, *values)), aggregates=aggregates)
    named = tuple((name, Column(name, key.type, key.nullable)) for name, key in keys)
    return logical.Project(grouped, (*named, *map(_result, wanted.aggregates)))


def _result(aggregate: Aggregate) -> tuple[str, Expression]:
    """The combined aggregate. A count is the sum of finer counts, but without finer groups it is 0 instead of NULL."""
    combined = Column(aggregate.name, aggregate.type)
    if aggregate.function in ("count", "count_if"):
        return aggregate.name, call("coalesce", combined, _ZERO)
    return aggregate.name, combined
