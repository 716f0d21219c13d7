"""Functions that slice, extend, join and search arrays."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import common_type, polars_type
from operators.expressions.function import (
    Arguments,
    Evaluation,
    Function,
    Rule,
    Signature,
    never_fails,
    never_fails_call,
)
from operators.expressions.functions.entry import LONG, TEXT, is_integer_or_null
from operators.expressions.functions.nested import element_type
from operators.expressions.functions.rules import exactly
from operators.expressions.tree import Call


def _slice_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) != 3 or element_type(arguments[0]) is None or not all(map(is_integer_or_null, arguments[1:])):
        return None
    return Signature((arguments[0].type, LONG, LONG), arguments[0].type)


def _slice(array: pl.Expr, first: pl.Expr, last: pl.Expr) -> pl.Expr:
    size = array.list.len().cast(pl.Int64)
    start = pl.when(first < 0).then(size + first.clip(-(2**40)) + 1).otherwise(first).clip(1)
    end = pl.when(last < 0).then(size + last.clip(-(2**40)) + 1).otherwise(pl.min_horizontal(last, size))
    known = array.is_not_null() & first.is_not_null() & last.is_not_null()
    return pl.when(known).then(array.list.slice(start.clip(1, 2**31) - 1, (end - start + 1).clip(0)))


def _with_element(array: int, *, appended: bool) -> Rule:
    """Returns the rule for an array, at the position `array`, and an element, both widened to a common type. Arrays and
    structs cannot be appended: Polars would append the elements of an array instead of the array."""

    def rule(arguments: Arguments) -> Signature | None:
        if len(arguments) != 2 or (inner := element_type(arguments[array])) is None:
            return None
        shared = common_type([inner, arguments[1 - array].type])
        if shared is None or (appended and pa.types.is_nested(shared)):
            return None
        types = (pa.list_(shared), shared) if array == 0 else (shared, pa.list_(shared))
        return Signature(types, pa.list_(shared), False) if appended else Signature(types, pa.list_(shared))

    return rule


def _position_rule(arguments: Arguments) -> Signature | None:
    signature = _with_element(0, appended=False)(arguments)
    return signature and Signature(signature.arguments, LONG, True)


def _concat_rule(arguments: Arguments) -> Signature | None:
    inner = [element_type(argument) for argument in arguments]
    if len(arguments) != 2 or (shared := common_type([type_ for type_ in inner if type_ is not None])) is None:
        return None
    return Signature((pa.list_(shared),) * 2, pa.list_(shared)) if None not in inner else None


def _or_empty(array: pl.Expr) -> pl.Expr:
    return array.fill_null(pl.lit([]))


def _concat(first: pl.Expr, second: pl.Expr) -> pl.Expr:
    any_present = first.is_not_null() | second.is_not_null()
    return pl.when(any_present).then(pl.concat_list([_or_empty(first), _or_empty(second)]))


def _compared(change: Callable[[list[object], object], object]) -> Evaluation:
    """Applies `change` to each pair of an array and a value, neither of them NULL, in a Python loop over the batch:
    Polars can compare elements only with a constant."""

    def build(call: Call, array: pl.Expr, value: pl.Expr) -> pl.Expr:
        dtype = polars_type(call.type)

        def changed(pairs: pl.Series) -> pl.Series:
            rows = zip(*(pairs.struct.field(name).to_list() for name in ("array", "value")), strict=True)
            found = [None if elements is None or one is None else change(elements, one) for elements, one in rows]
            return pl.Series(pairs.name, found, dtype)

        pairs = pl.struct(array.alias("array"), value.alias("value"))
        return pairs.map_batches(changed, return_dtype=dtype, is_elementwise=True)

    return never_fails_call(build)


def _same(left: object, right: object) -> bool:
    """Whether two values are equal in SQL, where NaN equals itself."""
    return left == right or (left != left and right != right)


def _position(elements: list[object], value: object) -> int | None:
    return next((at for at, element in enumerate(elements, 1) if _same(element, value)), None)


def _without(elements: list[object], value: object) -> list[object]:
    return [element for element in elements if not _same(element, value)]


def _entry(takes: str, summary: str, example: str, rule: Rule, evaluation: Evaluation) -> Function:
    return Function("nested", takes, summary, example, rule, evaluation)


def _equals_any(array: pl.Expr, value: pl.Expr) -> pl.Expr:
    """Whether any element equals the value; NULL where no element is equal but one is NULL."""
    found = array.list.contains(value)
    unknown = array.list.len() > array.list.drop_nulls().list.len()
    return pl.when(value.is_not_null()).then(pl.when(found).then(True).when(~unknown).then(found))


def _any_rule(arguments: Arguments) -> Signature | None:
    signature = _with_element(0, appended=False)(arguments)
    return signature and Signature(signature.arguments, pa.bool_(), True)


def _two_rule(arguments: Arguments) -> Signature | None:
    """The rule for two arrays whose elements are not arrays or structs, both widened to a common type."""
    signature = _concat_rule(arguments)
    shared = signature.result if signature else None
    if signature is None or not isinstance(shared, pa.ListType) or pa.types.is_nested(shared.value_type):
        return None
    return Signature(signature.arguments, pa.bool_())


def _values(elements: list[object]) -> set[object]:
    """Returns the values that are not NULL; all NaN are one value."""
    return {"NaN" if element != element else element for element in elements if element is not None}


def _has_all(elements: list[object], wanted: object) -> bool:
    assert isinstance(wanted, list)
    return None not in wanted and _values(wanted) <= _values(elements)


def _has_any(elements: list[object], wanted: object) -> bool:
    assert isinstance(wanted, list)
    return not _values(wanted).isdisjoint(_values(elements))


_LIST = "an array and a value"
ARRAYS: dict[str, Function] = {
    # `value = ANY(array)` is bound to this function
    "equals_any": _entry(_LIST, "Whether an element is equal to the value.", "", _any_rule, never_fails(_equals_any)),
    "array_slice": _entry(
        "an array and two positions",
        "The elements from one position to another, both included; a negative position is from the end; also a[1:2].",
        "ARRAY_SLICE(a, 1, 2)",
        _slice_rule,
        never_fails(_slice),
    ),
    "array_append": _entry(
        _LIST,
        "The array with the value appended; a NULL array is treated as empty.",
        "ARRAY_APPEND(a, 1)",
        _with_element(0, appended=True),
        never_fails(lambda array, value: pl.concat_list([_or_empty(array), value])),
    ),
    "array_prepend": _entry(
        "a value and an array",
        "The array with the value prepended; a NULL array is treated as empty.",
        "ARRAY_PREPEND(1, a)",
        _with_element(1, appended=True),
        never_fails(lambda value, array: pl.concat_list([value, _or_empty(array)])),
    ),
    "array_concat": _entry(
        "two arrays",
        "The elements of both; a NULL array is treated as empty, unless both are NULL; also ARRAY_CAT and a || b.",
        "ARRAY_CONCAT(a, a)",
        _concat_rule,
        never_fails(_concat),
    ),
    "array_position": _entry(
        _LIST,
        "The position of the first element that is equal to the value; NULL if there is none.",
        "ARRAY_POSITION(a, 1)",
        _position_rule,
        _compared(_position),
    ),
    "array_remove": _entry(
        _LIST,
        "The array without the elements that are equal to the value.",
        "ARRAY_REMOVE(a, 1)",
        _with_element(0, appended=False),
        _compared(_without),
    ),
    "array_contains_all": _entry(
        "two arrays",
        "Whether the first array contains each element of the second; NULL is never contained; also a @> b and b <@ a.",
        "ARRAY_CONTAINS_ALL(a, ARRAY[1])",
        _two_rule,
        _compared(_has_all),
    ),
    "array_overlaps": _entry(
        "two arrays",
        "Whether the arrays have a common element other than NULL; also a && b.",
        "ARRAY_OVERLAPS(a, ARRAY[1])",
        _two_rule,
        _compared(_has_any),
    ),
    "string_to_array": _entry(
        "text and a separator",
        "The parts between the separators, or the characters if the separator is empty; also STRING_SPLIT.",
        "STRING_TO_ARRAY('a,b', ',')",
        exactly(TEXT, TEXT, result=pa.list_(TEXT)),
        never_fails(lambda text, separator: pl.when(separator.is_not_null()).then(text.str.split(separator))),
    ),
}
