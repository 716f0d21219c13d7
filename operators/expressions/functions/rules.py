"""Typing rules that many functions share. A rule returns None if the arguments do not fit."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from operators.expressions.arrow_types import common_type
from operators.expressions.function import Arguments, Rule, Signature
from operators.expressions.tree import Expression, Literal

TypeTest = Callable[[pa.DataType], bool]


def is_text_literal(expression: Expression) -> bool:
    """True for a text literal, which adapts to the type of its context, as in `ts > '2024-01-01'`."""
    return isinstance(expression, Literal) and bool(pa.types.is_string(expression.type))


def shared_type(arguments: Sequence[Expression]) -> pa.DataType | None:
    """Returns the common type of the arguments, to which text literals adapt; None if no such type exists."""
    fixed = [argument.type for argument in arguments if not is_text_literal(argument)]
    others = common_type(fixed)
    if len(fixed) == len(arguments) or others is None:
        return others
    return pa.string() if pa.types.is_null(others) else others


def exactly(*types: pa.DataType, result: pa.DataType, nullable: bool | None = None, optional: int = 0) -> Rule:
    """Returns the rule of a function with these argument types, the last `optional` of which may be left out."""

    def rule(arguments: Arguments) -> Signature | None:
        if not len(types) - optional <= len(arguments) <= len(types):
            return None
        wanted = types[: len(arguments)]
        fits = all(widens(argument, type_) for argument, type_ in zip(arguments, wanted, strict=True))
        return Signature(wanted, result, nullable) if fits else None

    return rule


def widens(argument: Expression, type_: pa.DataType) -> bool:
    """True where the argument can be used as the type without a cast."""
    return is_text_literal(argument) or common_type([argument.type, type_]) == type_


def of_common_type(accept: TypeTest, count: int, result: pa.DataType | None = None) -> Rule:
    """Returns the rule of a function of `count` arguments of one common, accepted type. The result has this type too,
    unless `result` is given."""

    def rule(arguments: Arguments) -> Signature | None:
        shared = shared_type(arguments)
        if len(arguments) != count or shared is None or not (accept(shared) or pa.types.is_null(shared)):
            return None
        return Signature((shared,) * count, result or shared)

    return rule


def anything(_: pa.DataType) -> bool:
    return True


def ordered(type_: pa.DataType) -> bool:
    """Whether values of a type can be compared by `<`: all but arrays and structs."""
    return not pa.types.is_nested(type_)
