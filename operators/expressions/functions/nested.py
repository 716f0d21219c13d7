"""Functions that build arrays and structs and read their elements and fields; more are in `arrays`."""

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.arrow_types import common_type
from operators.expressions.function import (
    Arguments,
    Compiled,
    Function,
    Signature,
    first_fault,
    literal_value,
    never_fails,
    never_fails_call,
)
from operators.expressions.functions.comparison import null_where_fault
from operators.expressions.functions.entry import BOOLEAN, LONG, TEXT, constant, is_integer_or_null
from operators.expressions.functions.rules import shared_type
from operators.expressions.tree import Call, Expression


def element_type(expression: Expression) -> pa.DataType | None:
    """Returns the type of an array's elements, or None if the expression is not an array."""
    return expression.type.value_type if isinstance(expression.type, pa.ListType) else None


def _field_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 2 or not constant(arguments[1]) or not isinstance(arguments[0].type, pa.StructType):
        return None
    name = str(literal_value(arguments[1]))
    fields = {field.name.casefold(): field for field in arguments[0].type}
    if (field := fields.get(name.casefold())) is None:
        have = ", ".join(field.name for field in arguments[0].type)
        raise UserError(f'field "{name}" not found', hint=f"have: {have}")
    return Signature((arguments[0].type, TEXT), field.type, arguments[0].nullable or field.nullable)


def _field(call: Call, struct: pl.Expr, _: pl.Expr) -> pl.Expr:
    name, type_ = str(literal_value(call.arguments[1])).casefold(), call.arguments[0].type
    assert isinstance(type_, pa.StructType)
    return struct.struct.field(next(field.name for field in type_ if field.name.casefold() == name))


def _array_rule(arguments: Arguments) -> Signature | None:
    shared = shared_type(arguments)
    if not arguments or shared is None:
        return None
    return Signature((shared,) * len(arguments), pa.list_(shared), False)


def _of_values(arguments: Sequence[Compiled]) -> pl.Expr:
    return pl.concat_list([argument.value for argument in arguments])


def _of_arrays(arguments: Sequence[Compiled]) -> pl.Expr:
    """Builds an array of arrays. Each one is wrapped in a struct, because Polars would concatenate plain arrays."""
    wrapped = pl.concat_list([pl.struct(argument.value.alias("array")) for argument in arguments])
    return wrapped.list.eval(pl.element().struct.field("array"))


def _array(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    value = _of_arrays(arguments) if pa.types.is_list(call.arguments[0].type) else _of_values(arguments)
    return null_where_fault(value, first_fault([argument.fault for argument in arguments]))


def _struct_rule(arguments: Arguments) -> Signature | None:
    names, values = arguments[::2], arguments[1::2]
    if not arguments or len(names) != len(values) or not all(map(constant, names)):
        return None
    fields = [pa.field(str(literal_value(n)), v.type, v.nullable) for n, v in zip(names, values, strict=True)]
    return Signature(tuple(argument.type for argument in arguments), pa.struct(fields), False)


def _struct(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    names = [str(literal_value(name)) for name in call.arguments[::2]]
    value = pl.struct([field.value.alias(name) for name, field in zip(names, arguments[1::2], strict=True)])
    return null_where_fault(value, first_fault([argument.fault for argument in arguments]))


def _subscript_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 2 or (inner := element_type(arguments[0])) is None or not is_integer_or_null(arguments[1]):
        return None
    return Signature((arguments[0].type, LONG), inner, True)


def _subscript(array: pl.Expr, index: pl.Expr) -> pl.Expr:
    position = pl.when(index > 0).then(index - 1).when(index < 0).then(index).clip(-(2**31), 2**31)
    return array.list.get(position, null_on_oob=True)


def _contains_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 2 or (inner := element_type(arguments[0])) is None:
        return None
    shared = common_type([inner, arguments[1].type])
    return None if shared is None else Signature((pa.list_(shared), shared), BOOLEAN)


def _contains(array: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(value.is_not_null()).then(array.list.contains(value))


def _length_rule(arguments: Arguments) -> Signature | None:
    fits = len(arguments) == 1 and element_type(arguments[0]) is not None
    return Signature((arguments[0].type,), LONG) if fits else None


def _join_rule(arguments: Arguments) -> Signature | None:
    fits = len(arguments) == 2 and element_type(arguments[0]) == TEXT and arguments[1].type == TEXT
    return Signature((arguments[0].type, TEXT), TEXT) if fits else None


NESTED: dict[str, Function] = {
    "field": Function(
        "nested", "a struct and a name", "The field of a struct.", "address.city", _field_rule, never_fails_call(_field)
    ),
    "struct": Function(
        "nested", "names and values in turn", "A struct.", "STRUCT(1 AS a, 'x' AS b)", _struct_rule, _struct
    ),
    "array": Function("nested", "values of one type", "An array.", "ARRAY[1, 2]", _array_rule, _array),
    "subscript": Function(
        "nested",
        "an array and a position",
        "The element at the position, from 1, or from the end if it is negative; NULL if there is none.",
        "a[1]",
        _subscript_rule,
        never_fails(_subscript),
    ),
    "cardinality": Function(
        "nested",
        "an array",
        "The number of elements; also ARRAY_LENGTH.",
        "CARDINALITY(a)",
        _length_rule,
        never_fails(lambda a: a.list.len().cast(pl.Int64)),
    ),
    "array_contains": Function(
        "nested",
        "an array and a value",
        "True if the value is an element.",
        "ARRAY_CONTAINS(a, 1)",
        _contains_rule,
        never_fails(_contains),
    ),
    "array_to_string": Function(
        "nested",
        "an array of text and a separator",
        "The elements that are not NULL, joined by the separator.",
        "ARRAY_TO_STRING(a, ',')",
        _join_rule,
        never_fails(lambda a, separator: a.list.drop_nulls().list.join(separator)),
    ),
}
