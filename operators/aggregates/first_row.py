"""Aggregates that return a column of the first row by some order: min, max, first, last, any_value, arg_min/max."""

from __future__ import annotations

import pyarrow as pa

from operators.aggregates.function import AggregateFunction, FirstRow, Parameters, Types, Use
from operators.aggregates.rules import same
from operators.core.sort_key import SortKey
from operators.state.arrivals import ARRIVAL_ORDER, AT, SEQUENCE


def _reversed(key: SortKey) -> SortKey:
    return SortKey(key.column, not key.descending, key.nulls_last)


def _argument(use: Use) -> tuple[str, ...]:
    return use.columns[:1]


def _first(use: Use) -> tuple[SortKey, ...]:
    return (*use.order_by, *ARRIVAL_ORDER)


def _last(use: Use) -> tuple[SortKey, ...]:
    return (*map(_reversed, use.order_by), SortKey(AT, descending=True), SortKey(SEQUENCE, descending=True))


def _ordered(types: Types, parameters: Parameters) -> pa.DataType | None:
    return None if any(pa.types.is_null(type_) for type_ in types) else types[0]


def _entry(name: str, summary: str, method: FirstRow, arguments: int = 1) -> AggregateFunction:
    rule = _ordered if name in ("min", "max") else same
    return AggregateFunction(name, summary, (arguments, arguments), rule, method, repeats="no difference")


FIRST_ROW: dict[str, AggregateFunction] = {
    "min": _entry("min", "The least value.", FirstRow(lambda use: (SortKey(use.columns[0]),), _argument)),
    "max": _entry(
        "max",
        "The greatest value; NaN is greater than every other number.",
        FirstRow(lambda use: (SortKey(use.columns[0], descending=True),), _argument),
    ),
    "any_value": _entry("any_value", "The first value to arrive that is not NULL.", FirstRow(_first, _argument)),
    "first": _entry(
        "first",
        "The first value in the order of ORDER BY, then of time and arrival; it may be NULL.",
        FirstRow(_first, lambda use: ()),
    ),
    "last": _entry(
        "last",
        "The last value in the order of ORDER BY, then of time and arrival; it may be NULL.",
        FirstRow(_last, lambda use: ()),
    ),
    "arg_min": _entry(
        "arg_min",
        "The first argument of the row with the least second argument; ties: the least. NULL is ignored.",
        FirstRow(lambda use: (SortKey(use.columns[1]), SortKey(use.columns[0])), lambda use: use.columns),
        2,
    ),
    "arg_max": _entry(
        "arg_max",
        "The first argument of the row with the greatest second argument; ties: the least. NULL is ignored.",
        FirstRow(
            lambda use: (SortKey(use.columns[1], descending=True), SortKey(use.columns[0])), lambda use: use.columns
        ),
        2,
    ),
}
