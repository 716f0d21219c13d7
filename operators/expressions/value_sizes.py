"""Estimates the sizes of the values of functions before they are computed, and the costs of searches for patterns, in
the same unit.

The size of a text is its number of bytes; the size of an array is 8 bytes for each element and the sizes of its texts.
Functions that are not in `GROWTH` return values of a fixed size, one of their arguments, or a text at most a few times
as long as an argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import polars_type
from operators.expressions.function import Compiled, first_fault, height_of, lit_text, literal_value, quoted
from operators.expressions.pattern_costs import FEW_POSITIONS, MAX_STEPS, like_positions, nfa_positions
from operators.expressions.tree import Call, Expression, Literal

#: The largest value of a row, in bytes.
LONGEST = 1_000_000
#: The largest constant that planning computes, in bytes; the process that plans also serves other users.
LONGEST_CONSTANT = 10_000
#: The limit of the bytes that one call computes at once; a frame with more is evaluated in pieces.
MAX_AT_ONCE = 32_000_000
#: The most bytes of a number, a time or a similar value as text.
_SHORT = 48
#: The size of an element of an array.
ELEMENT = 8
#: How many times as large as its text a compiled pattern may be.
_COMPILED = 1_000
#: The characters that JSON escapes, except the quote and the backslash, and the most bytes of such an escape.
_CONTROLS, _ESCAPED = r"[\x00-\x1f]", 6
#: The most bytes of a field of a struct as JSON in addition to its name and twice the size of its value: for a colon, a
#: comma, and two brackets or the last digits of a number.
_PER_FIELD = 12
#: Occurrences are counted only if more than this many are possible.
_FEW = 1_000

Sizes: TypeAlias = list[pl.Series]
#: Returns the sizes of the values of a call for rows of arguments.
Estimate: TypeAlias = Callable[[Call, Sizes], pl.Series]


class RowTooLarge(Exception):
    """A row would have a value above the bound. `evaluate` handles this exception."""


class FrameTooLarge(Exception):
    """The values of a frame would together take more than `MAX_AT_ONCE`. `evaluate` handles this exception."""


def size(value: pl.Expr, type_: pa.DataType) -> pl.Expr:
    """Returns the size of each value; the size of NULL is 0.

    >>> pl.DataFrame({"a": [["x", "long"], None]}).select(size(pl.col("a"), pa.list_(pa.string())))["a"].to_list()
    [21, 0]
    """
    if pa.types.is_string(type_):
        return value.str.len_bytes().cast(pl.Int64).fill_null(0)
    if pa.types.is_binary(type_):
        return value.bin.size().cast(pl.Int64).fill_null(0)
    if isinstance(type_, pa.ListType):
        elements = value.list.eval(size(pl.element(), type_.value_type)).list.sum()
        return (value.list.len().cast(pl.Int64) * ELEMENT + elements).fill_null(0)
    if isinstance(type_, pa.StructType):
        return reduce(add, [size(value.struct.field(field.name), field.type) for field in type_])
    return pl.when(value.is_not_null()).then(ELEMENT).otherwise(0).cast(pl.Int64)


def _sizes(values: pl.Series, argument: Expression) -> pl.Series:
    return pl.DataFrame({"value": values}).select(size(pl.col("value"), argument.type)).to_series()


def _total(sizes: Sequence[pl.Series]) -> pl.Series:
    return reduce(add, sizes)


def _all(call: Call, values: Sizes) -> pl.Series:
    """Returns the sizes of all arguments together, and one `ELEMENT` for each."""
    return _total(list(map(_sizes, values, call.arguments))) + ELEMENT * len(values)


def _texts(call: Call, values: Sizes) -> list[pl.Series]:
    """Returns the sizes of the arguments as texts."""
    return [
        _sizes(value, argument) if pa.types.is_string(argument.type) else pl.Series([_SHORT])
        for value, argument in zip(values, call.arguments, strict=True)
    ]


def _joined(call: Call, values: Sizes) -> pl.Series:
    return _total(_texts(call, values))


def _joined_with(call: Call, values: Sizes) -> pl.Series:
    separator, *texts = _texts(call, values)
    return _total(texts) + separator * len(texts)


def _elements_joined(call: Call, values: Sizes) -> pl.Series:
    array, separator = map(_sizes, values, call.arguments)
    return array + separator * values[0].list.len().cast(pl.Int64).fill_null(0)


def _repeated(call: Call, values: Sizes) -> pl.Series:
    return _sizes(values[0], call.arguments[0]) * values[1].clip(0, LONGEST + 1).fill_null(0)


def _padded(_: Call, values: Sizes) -> pl.Series:
    return values[1].clip(0, LONGEST + 1).fill_null(0)


def _occurrences(text: pl.Series, part: pl.Series, *, literal: bool = True) -> pl.Series:
    """Returns how often a part occurs in a text, or an upper bound of it."""
    shortest = int(part.str.len_bytes().fill_null(1).to_numpy().min(initial=LONGEST)) if literal else 1
    most = text.str.len_bytes().cast(pl.Int64) // max(shortest, 1) + 1
    if _largest(most) > _FEW:
        pairs = pl.DataFrame({"text": text, "part": part} if len(text) == len(part) else {"text": text})
        counted = pl.col("text").str.count_matches(
            pl.col("part") if "part" in pairs.columns else part[0], literal=literal
        )
        most = pairs.select(counted.cast(pl.Int64)).to_series()
    return most.fill_null(0)


def _largest(sizes: pl.Series) -> int:
    return int(sizes.fill_null(0).to_numpy().max(initial=0))


def _spread(values: pl.Series, height: int) -> pl.Series:
    return values if len(values) == height else values.new_from_index(0, height)


def _replaced(call: Call, values: Sizes) -> pl.Series:
    text, old, new = map(_sizes, values, call.arguments)
    longer = (new - old).clip(0)
    if not _largest(longer):
        return longer
    return _grown(text, _occurrences(_spread(values[0], height_of(values)), values[1]) * longer)


def _grown(text: pl.Series, by: pl.Series) -> pl.Series:
    """Returns the sizes of texts that become longer, and 0 for the others, which need no bound."""
    return (text + by) * (by > 0).cast(pl.Int64)


def _matches_replaced(call: Call, values: Sizes) -> pl.Series:
    pattern, new = (str(literal_value(argument)) for argument in call.arguments[1:3])
    flags = str(literal_value(call.arguments[3])) if len(call.arguments) == 4 else ""
    text, groups = _sizes(values[0], call.arguments[0]), len(re.findall(r"\\\d", new))
    many = "g" in flags
    cost = _searched(call, values)
    if _largest(cost) > LONGEST:
        return cost
    found = _occurrences(values[0], pl.Series([pattern]), literal=False) if many else pl.Series([1])
    return pl.DataFrame([_grown(text, found * len(new.encode()) + text * groups), cost.alias("cost")]).max_horizontal()


def _parts(call: Call, values: Sizes) -> pl.Series:
    text, separator = _spread(values[0], height_of(values)), values[1]
    most = _occurrences(text, separator)
    return _sizes(text, call.arguments[0]) + (most + 1) * ELEMENT


def _as_json(call: Call, values: Sizes) -> pl.Series:
    """Doubles the sizes of the arguments, for quotes, short escapes and the digits of numbers, and adds the names and
    long escapes."""
    names = sum(len(str(argument.value)) for argument in call.arguments if isinstance(argument, Literal))
    added = [
        pl.DataFrame({"value": value}).select(_added_by_json(pl.col("value"), argument.type)).to_series()
        for value, argument in zip(values, call.arguments, strict=True)
        if _is_longer_in_json(argument.type)
    ]
    return _total([_all(call, values) * 2 + names, *added])


def _is_longer_in_json(type_: pa.DataType) -> bool:
    """Whether values may be longer as JSON than twice their size."""
    if isinstance(type_, pa.ListType):
        return _is_longer_in_json(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_struct(type_))


def _added_by_json(value: pl.Expr, type_: pa.DataType) -> pl.Expr:
    """Returns by how many bytes the JSON of each value may exceed twice its size: control characters take six bytes,
    and each struct has the names of its fields, and a `null` for each NULL.

    >>> strings = pl.DataFrame({"a": ["plain", "\\x01\\n", None]})
    >>> strings.select(_added_by_json(pl.col("a"), pa.string()))["a"].to_list()
    [0, 8, 0]
    """
    if pa.types.is_string(type_):
        return value.str.count_matches(_CONTROLS).cast(pl.Int64).fill_null(0) * (_ESCAPED - 2)
    if isinstance(type_, pa.ListType) and _is_longer_in_json(type_):
        return value.list.eval(_added_by_json(pl.element(), type_.value_type)).list.sum().fill_null(0)
    if isinstance(type_, pa.StructType):
        named = sum(len(json.dumps(field.name, ensure_ascii=False).encode()) + _PER_FIELD for field in type_)
        own = value.is_not_null().cast(pl.Int64) * named
        return reduce(add, [_added_by_json(value.struct.field(field.name), field.type) for field in type_], own)
    return pl.lit(0, dtype=pl.Int64)


def _formatted(call: Call, values: Sizes) -> pl.Series:
    return pl.Series([_SHORT * len(str(literal_value(call.arguments[1])))])


def _searched(call: Call, values: Sizes) -> pl.Series:
    """Returns the costs of searches; a search of `MAX_STEPS` steps costs as much as a value of the largest size."""
    patterns = values[1].cast(pl.String)
    costs = {each: max(_positions(call)(each) - FEW_POSITIONS, 0) for each in patterns.unique() if each is not None}
    steps = patterns.replace_strict({None: 0, **costs}, return_dtype=pl.Int64)
    return _sizes(values[0], call.arguments[0]) * steps // (MAX_STEPS // LONGEST)


def _positions(call: Call) -> Callable[[str], int]:
    return like_positions if call.function in ("like", "ilike") else nfa_positions


def _compiled(call: Call, values: Sizes) -> pl.Series:
    """As `_searched`. A pattern that is not a literal is compiled for each row, which costs a multiple of its size."""
    cost = _searched(call, values)
    if isinstance(call.arguments[1], Literal):
        return cost
    compiled = _sizes(values[1], call.arguments[1]) * _COMPILED
    return pl.DataFrame(
        [_spread(cost, height_of(values)), _spread(compiled, height_of(values)).alias("compiled")]
    ).max_horizontal()


#: The estimates for functions whose values may be larger than their arguments, or whose searches may be costly.
GROWTH: dict[str, Estimate] = {
    "concat": _joined,
    "concat_strict": _joined,
    "concat_ws": _joined_with,
    "replace": _replaced,
    "regexp_replace": _matches_replaced,
    "repeat": _repeated,
    "lpad": _padded,
    "rpad": _padded,
    "array": _all,
    "struct": _all,
    "array_append": _all,
    "array_prepend": _all,
    "array_concat": _all,
    "array_to_string": _elements_joined,
    "string_to_array": _parts,
    "to_json": _as_json,
    "json_array": _as_json,
    "json_object": _as_json,
    "strftime": _formatted,
    "like": _compiled,
    "ilike": _compiled,
    "regexp_like": _compiled,
    "regexp_extract": _compiled,
}


def grows(call: Call) -> bool:
    """Whether a value may be larger than the arguments, or a search may cost too much."""
    estimate = GROWTH.get(call.function)
    if estimate is not _compiled or not isinstance(call.arguments[1], Literal):
        return estimate is not None
    pattern = call.arguments[1].value
    return pattern is not None and _positions(call)(str(pattern)) > FEW_POSITIONS


Build: TypeAlias = Callable[[Call, Sequence[Compiled]], Compiled]


def checked(call: Call, arguments: Sequence[Compiled], longest: int, build: Build) -> Compiled:
    """Compiles a call with `build`; its evaluation raises `RowTooLarge` or `FrameTooLarge` before it computes too large
    a value. Each argument occurs in the value once, so that nested calls are not repeated."""
    if not grows(call):
        return build(call, arguments)
    given = [
        argument if isinstance(node, Literal) else Compiled(pl.col(str(at)))
        for at, (node, argument) in enumerate(zip(call.arguments, arguments, strict=True))
    ]
    inner, values = build(call, given), [argument.value for argument in arguments]
    value = pl.map_batches(values, _guard(call, inner.value, longest), polars_type(call.type), is_elementwise=True)
    faulty = fault = first_fault([argument.fault for argument in arguments])
    if inner.fault is not None:
        own = pl.map_batches(values, _guard(call, inner.fault, longest), pl.String, is_elementwise=True)
        fault = first_fault([faulty, own])
    return Compiled(value if faulty is None else pl.when(faulty.is_null()).then(value), fault)


def _guard(call: Call, value: pl.Expr, longest: int) -> Callable[[Sequence[pl.Series]], pl.Series]:
    """Returns a function that checks the sizes of a call's values, then evaluates an expression over its arguments, as
    columns named by their positions."""

    def made(values: Sequence[pl.Series]) -> pl.Series:
        sizes, height = GROWTH[call.function](call, list(values)), height_of(values)
        if _largest(sizes) > longest:
            raise RowTooLarge
        _check_frame(sizes, height)
        columns = [_spread(each, height).alias(str(at)) for at, each in enumerate(values)]
        return _spread(pl.DataFrame(columns).select(value).to_series(), height)

    return made


def within(call: Call, arguments: Sequence[Compiled], longest: int) -> pl.Expr:
    """True for rows whose value does not exceed the bound; its evaluation may raise `FrameTooLarge`."""

    def fits(values: Sequence[pl.Series]) -> pl.Series:
        sizes, height = GROWTH[call.function](call, list(values)), height_of(values)
        fitting = sizes <= longest
        _check_frame(sizes * fitting.cast(pl.Int64), height)
        return _spread(fitting, height)

    return pl.map_batches([argument.value for argument in arguments], fits, pl.Boolean, is_elementwise=True)


def compiled_where_it_fits(
    call: Call, arguments: Sequence[Compiled], fits: pl.Expr, longest: int, build: Build
) -> Compiled:
    """Compiles a call with `build` for the rows that fit; the others are in fault."""
    # Polars also searches the value that is stored behind a NULL.
    blank = lit_text("") if GROWTH[call.function] is _compiled else pl.lit(None)
    kept = [
        argument
        if isinstance(node, Literal) and at
        else replace(argument, value=pl.when(fits).then(argument.value).otherwise(blank))
        for at, (node, argument) in enumerate(zip(call.arguments, arguments, strict=True))
    ]
    built = build(call, kept)
    own = pl.when(~fits).then(lit_text(f"{_problem(call, longest)} in {quoted(call)}"))
    return Compiled(pl.when(fits).then(built.value), first_fault([own, built.fault]))


def _check_frame(sizes: pl.Series, height: int) -> None:
    total = sizes.sum() * (height if len(sizes) == 1 else 1)
    if height > 1 and total > MAX_AT_ONCE:
        raise FrameTooLarge


def _problem(call: Call, longest: int) -> str:
    costly, result = "text too long for a pattern this expensive", call.type
    if GROWTH[call.function] is _compiled:
        long = (
            "" if isinstance(call.arguments[1], Literal) else f"pattern longer than {longest // _COMPILED} bytes, or "
        )
        return long + costly
    if call.function == "regexp_replace":
        return f"text longer than {longest} bytes, or {costly},"
    kind = "text" if pa.types.is_string(result) else "array" if pa.types.is_list(result) else "value"
    return f"{kind} longer than {longest} bytes"
