"""Functions that build JSON text from values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import integer
from operators.expressions.function import (
    Arguments,
    Compiled,
    Evaluation,
    Function,
    Signature,
    first_fault,
    literal_value,
)
from operators.expressions.functions.entry import TEXT
from operators.expressions.tree import Call, Literal

_encode = msgspec.json.Encoder().encode


def writable(kind: pa.DataType) -> bool:
    """Whether values of a type can be written as JSON: integers, doubles, texts, booleans, and arrays and structs of
    these. Values of other types have several notations; a cast to VARCHAR or DOUBLE chooses one.

    >>> writable(pa.list_(pa.int32())), writable(pa.date32())
    (True, False)
    """
    if pa.types.is_list(kind):
        return writable(kind.value_type)
    if pa.types.is_struct(kind):
        return all(writable(field.type) for field in kind)
    plain = pa.types.is_float64(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return bool(plain) or integer(kind)


def _object(values: Sequence[Any]) -> Any:
    return dict(zip(values[::2], values[1::2], strict=True))


def _of_value(arguments: Arguments) -> Signature | None:
    return _signature(arguments, nullable=arguments[1].nullable) if len(arguments) == 2 else None


def _of_values(arguments: Arguments) -> Signature | None:
    return _signature(arguments, nullable=False)


def _of_pairs(arguments: Arguments) -> Signature | None:
    names = arguments[1::2]
    named = all(isinstance(name, Literal) and isinstance(name.value, str) for name in names)
    distinct = len({name.value for name in names if isinstance(name, Literal)}) == len(names)
    fits = named and distinct and len(arguments) % 2 == 1
    return _signature(arguments, nullable=False) if fits else None


def _signature(arguments: Arguments, *, nullable: bool | None) -> Signature | None:
    types = tuple(argument.type for argument in arguments)
    return Signature(types, TEXT, nullable) if all(map(writable, types)) else None


def _evaluation(make: Callable[[Sequence[Any]], Any], *, strict: bool = False) -> Evaluation:
    def evaluate(call: Call, arguments: Sequence[Compiled]) -> Compiled:
        whole = [mark == JSON_MARK for mark in str(literal_value(call.arguments[0]))]
        named = [argument.value.alias(f"a{at}") for at, argument in enumerate(arguments[1:])]

        def texts(rows: pl.Series) -> pl.Series:
            made = [_text(make, list(row.values())[1:], whole) for row in rows.to_list()]
            return pl.Series(rows.name, made, pl.String)

        packed = pl.struct([pl.lit(0).alias("row"), *named])
        text = packed.map_batches(texts, return_dtype=pl.String(), is_elementwise=True)
        fault = first_fault([argument.fault for argument in arguments])
        missing = arguments[1].value.is_null() if strict else None if fault is None else fault.is_not_null()
        return Compiled(text if missing is None else pl.when(~missing).then(text), fault)

    return evaluate


def _text(make: Callable[[Sequence[Any]], Any], values: Sequence[Any], whole: Sequence[bool]) -> str:
    """Returns the JSON text of a row's values."""
    return _encode(make([_plain(value, json) for value, json in zip(values, whole, strict=True)])).decode()


def _plain(value: Any, whole: bool) -> Any:
    """Prepares a value for the encoder: keeps JSON text as it is, and replaces numbers that JSON cannot represent by
    NULL."""
    if isinstance(value, list):
        return [_plain(item, False) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item, False) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return msgspec.Raw(value.encode()) if whole and value is not None else value


_TAKES = "integers, doubles, texts, booleans, and arrays and structs of these"
#: The first argument of these functions is hidden from users. It has a mark for each other argument: JSON_MARK for a
#: call that returns JSON, which is inserted unchanged, and TEXT_MARK for any other value. The binder sets the marks,
#: because the optimizer may later replace such a call by a constant or a column.
JSON_MARK, TEXT_MARK = "j", "t"
BUILDING: dict[str, Function] = {
    "to_json": Function(
        "json",
        _TAKES,
        "A value as JSON.",
        "TO_JSON('x')",
        _of_value,
        _evaluation(lambda values: values[0], strict=True),
    ),
    "json_array": Function(
        "json",
        _TAKES,
        "A JSON array of values; a NULL becomes null.",
        "JSON_ARRAY(1, 'x')",
        _of_values,
        _evaluation(list),
    ),
    "json_object": Function(
        "json",
        "literal names and values in turn, the values as in JSON_ARRAY",
        "A JSON object; a NULL becomes null, and the result of these functions or of JSON_EXTRACT is inserted as JSON.",
        "JSON_OBJECT('a', 1, 'b', JSON_ARRAY(2))",
        _of_pairs,
        _evaluation(_object),
    ),
}
