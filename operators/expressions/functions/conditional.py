"""Conditional forms: a branch that is not taken cannot be in fault."""

from collections.abc import Callable, Sequence

import polars as pl
import pyarrow as pa

from operators.expressions.function import Arguments, Compiled, Function, Signature, first_fault, lit_text, quoted
from operators.expressions.functions.comparison import compare, null_where_fault
from operators.expressions.functions.rules import anything, of_common_type, ordered, shared_type, widens
from operators.expressions.tree import Call

_NO_FAULT = pl.lit(None, dtype=pl.String)


def _case_rule(arguments: Arguments) -> Signature | None:
    if len(arguments) < 3 or len(arguments) % 2 == 0:
        return None
    conditions, results = arguments[:-1:2], (*arguments[1::2], arguments[-1])
    shared = shared_type(results)
    if shared is None or not all(widens(condition, pa.bool_()) for condition in conditions):
        return None
    wanted = (pa.bool_(), shared) * len(conditions) + (shared,)
    return Signature(wanted, shared, any(result.nullable for result in results))


def _case(_: Call, arguments: Sequence[Compiled]) -> Compiled:
    value = arguments[-1].value
    fault = _NO_FAULT if arguments[-1].fault is None else arguments[-1].fault
    for when, then in zip(arguments[-3::-2], arguments[-2::-2], strict=True):
        value = pl.when(when.value).then(then.value).otherwise(value)
        fault = pl.when(when.value).then(_NO_FAULT if then.fault is None else then.fault).otherwise(fault)
        if when.fault is not None:
            value = pl.when(when.fault.is_null()).then(value)
            fault = pl.coalesce(when.fault, fault)
    return Compiled(value, fault if any(argument.fault is not None for argument in arguments) else None)


def _shared_rule(nullable: Callable[[Arguments], bool]) -> Callable[[Arguments], Signature | None]:
    def rule(arguments: Arguments) -> Signature | None:
        shared = shared_type(arguments)
        if not arguments or shared is None:
            return None
        return Signature((shared,) * len(arguments), shared, nullable(arguments))

    return rule


def _coalesce(_: Call, arguments: Sequence[Compiled]) -> Compiled:
    value, fault = arguments[-1].value, arguments[-1].fault
    for argument in reversed(arguments[:-1]):
        fault = None if fault is None else pl.when(argument.value.is_null()).then(fault)
        value = pl.coalesce(argument.value, value)
        if argument.fault is not None:
            value = pl.when(argument.fault.is_null()).then(value)
        fault = first_fault([argument.fault, fault])
    return Compiled(value, fault)


def _nullif_rule(arguments: Arguments) -> Signature | None:
    signature = of_common_type(anything, 2)(arguments)
    return signature and Signature(signature.arguments, signature.result, True)


def _nullif(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    value, other = arguments
    same = compare("=", call.type)(value.value, other.value)
    kept = pl.when(same.fill_null(value=False)).then(None).otherwise(value.value)
    return null_where_fault(kept, first_fault([value.fault, other.fault]))


def _greatest(call: Call, values: Sequence[pl.Expr]) -> pl.Expr:
    """The greatest value, where NaN is greater than every other number; Polars would skip it."""
    greatest = pl.max_horizontal(*values)
    if not pa.types.is_floating(call.type):
        return greatest
    return pl.when(pl.any_horizontal(*[value.is_nan() for value in values])).then(float("nan")).otherwise(greatest)


def _least(_: Call, values: Sequence[pl.Expr]) -> pl.Expr:
    return pl.min_horizontal(*values)


def _extreme(build: Callable[[Call, Sequence[pl.Expr]], pl.Expr]) -> Callable[[Call, Sequence[Compiled]], Compiled]:
    """Evaluates all arguments in a single expression, whose size is the sum of the sizes of its arguments."""

    def evaluate(call: Call, arguments: Sequence[Compiled]) -> Compiled:
        value = build(call, [argument.value for argument in arguments])
        return null_where_fault(value, first_fault([argument.fault for argument in arguments]))

    return evaluate


def _not_null_rule(arguments: Arguments) -> Signature | None:
    return Signature((arguments[0].type,), arguments[0].type, False) if len(arguments) == 1 else None


def _not_null(call: Call, arguments: Sequence[Compiled]) -> Compiled:
    value, fault = arguments[0].value, arguments[0].fault
    own = pl.when(value.is_null()).then(lit_text(f"NULL in {quoted(call)}"))
    return Compiled(value, first_fault([fault, own]))


def _ordered_rule(arguments: Arguments) -> Signature | None:
    signature = _ALL_NULLABLE(arguments)
    return signature if signature is not None and ordered(signature.result) else None


_ALL_NULLABLE = _shared_rule(lambda arguments: all(argument.nullable for argument in arguments))

CONDITIONAL: dict[str, Function] = {
    "case": Function(
        "conditional",
        "conditions and values in turn, then the value of ELSE",
        "The value of the first condition that is TRUE; also CASE x WHEN …, IF and IFF.",
        "CASE WHEN a > 0 THEN 'up' ELSE 'down' END",
        _case_rule,
        _case,
    ),
    "coalesce": Function(
        "conditional",
        "values of one type",
        "The first value that is not NULL; also IFNULL and NVL.",
        "COALESCE(a, b, 0)",
        _ALL_NULLABLE,
        _coalesce,
    ),
    "nullif": Function(
        "conditional",
        "two values of one type",
        "NULL if both are equal, else the first.",
        "NULLIF(a, 0)",
        _nullif_rule,
        _nullif,
    ),
    "not_null": Function(
        "conditional",
        "a value",
        "The value; a row in which it is NULL is refused.",
        "NOT_NULL(a)",
        _not_null_rule,
        _not_null,
    ),
    "greatest": Function(
        "conditional",
        "values of one type that is not an array or struct",
        "The largest value; NULLs are ignored.",
        "GREATEST(a, b)",
        _ordered_rule,
        _extreme(_greatest),
    ),
    "least": Function(
        "conditional",
        "values of one type that is not an array or struct",
        "The smallest value; NULLs are ignored.",
        "LEAST(a, b)",
        _ordered_rule,
        _extreme(_least),
    ),
}
