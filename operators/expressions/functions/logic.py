"""Three-valued logic. A fault is masked where the other operand already decides the result."""

from collections.abc import Callable, Sequence
from functools import reduce

import polars as pl
import pyarrow as pa

from operators.expressions.function import Arguments, Compiled, Function, Signature, first_fault, never_fails
from operators.expressions.functions.comparison import null_where_fault
from operators.expressions.functions.rules import widens
from operators.expressions.tree import Call


def _connect(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Callable[[Call, Sequence[Compiled]], Compiled]:
    """Connects operands. An operand in fault is null, so the result is null unless another operand decides it. If one
    does, the fault is masked."""

    def evaluate(_: Call, arguments: Sequence[Compiled]) -> Compiled:
        value = reduce(operation, [argument.value for argument in arguments])
        fault = first_fault([argument.fault for argument in arguments])
        return Compiled(value, None if fault is None else pl.when(value.is_null()).then(fault))

    return evaluate


def _booleans(arguments: Arguments) -> Signature | None:
    fits = len(arguments) > 1 and all(widens(argument, pa.bool_()) for argument in arguments)
    return Signature((pa.bool_(),) * len(arguments), pa.bool_()) if fits else None


def _boolean(*, nullable: bool | None) -> Callable[[Arguments], Signature | None]:
    def rule(arguments: Arguments) -> Signature | None:
        fits = len(arguments) == 1 and widens(arguments[0], pa.bool_())
        return Signature((pa.bool_(),), pa.bool_(), nullable) if fits else None

    return rule


def _test(example: str, build: Callable[[pl.Expr], pl.Expr]) -> Function:
    def evaluate(_: Call, arguments: Sequence[Compiled]) -> Compiled:
        return null_where_fault(build(arguments[0].value), arguments[0].fault)

    return Function("logic", "a boolean", "TRUE or FALSE, never NULL.", example, _boolean(nullable=False), evaluate)


LOGIC: dict[str, Function] = {
    "and": Function(
        "logic",
        "booleans",
        "FALSE if an operand is FALSE, even if another operand is in fault.",
        "a AND b",
        _booleans,
        _connect(lambda a, b: a & b),
    ),
    "or": Function(
        "logic",
        "booleans",
        "TRUE if an operand is TRUE, even if another operand is in fault.",
        "a OR b",
        _booleans,
        _connect(lambda a, b: a | b),
    ),
    "not": Function("logic", "a boolean", "The opposite.", "NOT a", _boolean(nullable=None), never_fails(lambda a: ~a)),
    "is_true": _test("a IS TRUE", lambda a: a.fill_null(value=False)),
    "is_false": _test("a IS FALSE", lambda a: ~a.fill_null(value=True)),
    "is_not_true": _test("a IS NOT TRUE", lambda a: ~a.fill_null(value=False)),
    "is_not_false": _test("a IS NOT FALSE", lambda a: a.fill_null(value=True)),
}
