"""Evaluates expressions as Polars expressions over the columns of a frame; faults are values, not exceptions."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import INTERVAL, polars_type
from operators.expressions.function import Compiled, first_fault
from operators.expressions.functions import FUNCTIONS
from operators.expressions.functions.comparison import MIRRORED
from operators.expressions.tree import Call, Column, DefinedCall, Expression, Literal, calls_defined, columns, walk
from operators.python import call_function

_OPTIMIZATIONS = pl.QueryOptFlags.none().update(comm_subexpr_elim=True, simplify_expression=True)
_STRICT = frozenset({*MIRRORED, "not_equal"})
_FAULTLESS = pl.Series("fault", [None], pl.String)


@lru_cache(maxsize=8192)
def compile_expression(expression: Expression) -> Compiled:
    """Returns the value and the fault as Polars expressions: the value never raises and is null where there is a fault.

    >>> from operators.expressions.build import call
    >>> ratio = compile_expression(call("divide", Column("a", pa.int32()), Column("b", pa.int32())))
    >>> frame = pl.DataFrame({"a": [7, 7], "b": [2, 0]}, schema={"a": pl.Int32, "b": pl.Int32})
    >>> frame.select(ratio.value.alias("value"), ratio.fault.alias("fault")).rows()
    [(3, None), (None, 'division by zero in "a / b"')]
    """
    if isinstance(expression, Column):
        return Compiled(pl.col(expression.name))
    if isinstance(expression, Literal):
        return Compiled(_literal(expression))
    if isinstance(expression, DefinedCall):
        # `evaluate` computes such calls before; what is asked of them elsewhere is whether they have a value everywhere
        return Compiled(pl.lit(None, polars_type(expression.type)), pl.lit(f'"{expression.function}" is not computed'))
    arguments = [compile_expression(argument) for argument in expression.arguments]
    compiled = FUNCTIONS[expression.function].evaluate(expression, arguments)
    if expression.function in _STRICT and any(map(_is_null, expression.arguments)):
        # Polars evaluates a column compared with NULL as a NULL of the column's type, not as a BOOLEAN.
        compiled = Compiled(pl.lit(None, dtype=pl.Boolean), compiled.fault)
    return (
        compiled if columns(expression) or expression.type == INTERVAL else _constant_folded(compiled, expression.type)
    )


def _is_null(constant: Expression) -> bool:
    """Whether an expression without columns is NULL."""
    if isinstance(constant, Literal):
        return constant.value is None
    if columns(constant) or constant.type == INTERVAL:
        return False
    compiled = compile_expression(constant)
    return compiled.fault is None and pl.select(compiled.value.alias("value"))["value"][0] is None


def _constant_folded(constant: Compiled, type_: pa.DataType) -> Compiled:
    """A call without columns as a literal: Polars evaluates such a call to a single row."""
    fault = pl.lit(None, dtype=pl.String) if constant.fault is None else constant.fault
    dtype = polars_type(type_)
    evaluated = pl.select(constant.value.cast(dtype, strict=False).alias("value"), fault.alias("fault"))
    if (reason := evaluated["fault"][0]) is not None:
        return Compiled(pl.lit(None, dtype), pl.lit(reason))
    return Compiled(pl.lit(pl.Series("", evaluated["value"], dtype=dtype)).first())


def _literal(literal: Literal) -> pl.Expr:
    if literal.type == INTERVAL:
        return pl.lit(None, dtype=pl.Null)
    dtype = polars_type(literal.type)
    if pa.types.is_nested(literal.type):
        return pl.lit(pl.Series("", [literal.value], dtype=dtype)).first()
    return pl.lit(literal.value, dtype=dtype)


def evaluate(frame: pl.DataFrame, expressions: Mapping[str, Expression]) -> tuple[pl.DataFrame, pl.Series]:
    """Returns the values in their declared types, a column for each expression, and for each row its first fault or
    null.

    >>> from operators.expressions.build import call
    >>> a = Column("a", pa.int8())
    >>> values, faults = evaluate(pl.DataFrame({"a": pl.Series([1, 127], dtype=pl.Int8)}), {"twice": call("add", a, a)})
    >>> values["twice"].to_list(), faults.to_list()
    ([2, None], [None, 'integer overflow in "a + a"'])
    """
    if (renamed := _renamed(frame, expressions)) is not None:
        return renamed, _FAULTLESS.new_from_index(0, frame.height)
    if any(map(calls_defined, expressions.values())):
        return _with_defined(frame, expressions)
    compiled = {name: compile_expression(expression) for name, expression in expressions.items()}
    fault = first_fault([program.fault for program in compiled.values()])
    outputs = {
        f"\0{position}": program.value.cast(polars_type(expression.type), strict=False)
        for position, (program, expression) in enumerate(zip(compiled.values(), expressions.values(), strict=True))
    }
    outputs["\0fault"] = pl.lit(None, dtype=pl.String) if fault is None else fault
    result = (
        _read_columns(frame, frozenset().union(*map(columns, expressions.values())))
        .lazy()
        .with_columns(**outputs)
        .select(list(outputs))
    )
    evaluated = result.collect(optimizations=_OPTIMIZATIONS, engine="in-memory")
    faults = evaluated.drop_in_place("\0fault").alias("fault")
    evaluated.columns = list(expressions)
    return evaluated, faults


def _with_defined(frame: pl.DataFrame, expressions: Mapping[str, Expression]) -> tuple[pl.DataFrame, pl.Series]:
    """As `evaluate`, for expressions with calls of functions that users wrote: those are computed first, each once, the
    innermost before the others. Where an argument has no value, the function gets NULL, and the row is in fault."""
    inner = {node: None for expression in expressions.values() for node in _innermost(expression)}
    computed: dict[Expression, Column] = {}
    faults: list[pl.Series] = []
    for call in inner:
        assert call.definition is not None
        name = f"\0defined{frame.width}"
        arguments, fault = evaluate(frame, {f"\0{at}": argument for at, argument in enumerate(call.arguments)})
        computed[call] = Column(name, call.type, True)
        faults.append(fault)
        frame = frame.with_columns(call_function(call.definition, arguments, frame.height).alias(name))
    outputs = {name: _replaced(expression, computed) for name, expression in expressions.items()}
    values, fault = evaluate(frame, outputs)
    first = pl.select(pl.coalesce(*faults, fault)).to_series() if frame.height else fault
    return values, first.alias("fault")


def _innermost(expression: Expression) -> list[DefinedCall]:
    """The calls of defined functions whose arguments call none."""
    return [
        node
        for node in walk(expression)
        if isinstance(node, DefinedCall) and not any(map(calls_defined, node.arguments))
    ]


def _replaced(expression: Expression, computed: Mapping[Expression, Column]) -> Expression:
    if (column := computed.get(expression)) is not None:
        return column
    if not isinstance(expression, Call):
        return expression
    return replace(expression, arguments=tuple(_replaced(argument, computed) for argument in expression.arguments))


def _renamed(frame: pl.DataFrame, expressions: Mapping[str, Expression]) -> pl.DataFrame | None:
    """The values if all expressions are columns that have their declared types already, else None."""
    picked = [
        frame[expression.name].alias(name)
        for name, expression in expressions.items()
        if isinstance(expression, Column) and frame.schema[expression.name] == polars_type(expression.type)
    ]
    return pl.DataFrame(picked) if picked and len(picked) == len(expressions) else None


def _read_columns(frame: pl.DataFrame, read: frozenset[str]) -> pl.DataFrame:
    """The columns that are read, or the first if none is. Rebuilding the frame materialises columns that Polars holds
    as a single repeated value: a literal compared with such a column would have a single row."""
    kept = [name for name in frame.columns if name in read] or frame.columns[:1]
    return pl.DataFrame([frame[name] for name in kept]) if kept else frame
