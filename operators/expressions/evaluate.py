"""Expressions run as Polars expressions over the columns of a frame; faults are values, not exceptions."""

from collections.abc import Mapping
from functools import lru_cache

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import INTERVAL, polars_type
from operators.expressions.function import Compiled, first_fault
from operators.expressions.functions import FUNCTIONS
from operators.expressions.mirrored import MIRRORED
from operators.expressions.tree import Column, Expression, Literal, columns

_OPTIMIZATIONS = pl.QueryOptFlags.none().update(comm_subexpr_elim=True, simplify_expression=True)
_STRICT = frozenset({*MIRRORED, "not_equal"})
_FAULTLESS = pl.Series("fault", [None], pl.String)


@lru_cache(maxsize=8192)
def compile_expression(expression: Expression) -> Compiled:
    """Returns value and fault as Polars expressions: the value never raises, and is null where the row is in fault.

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
    arguments = [compile_expression(argument) for argument in expression.arguments]
    compiled = FUNCTIONS[expression.function].evaluate(expression, arguments)
    if expression.function in _STRICT and any(map(_is_null, expression.arguments)):
        # Polars takes a column compared with NULL for a NULL of the column's type
        compiled = Compiled(pl.lit(None, dtype=pl.Boolean), compiled.fault)
    return compiled if columns(expression) or expression.type == INTERVAL else _folded(compiled, expression.type)


def _is_null(constant: Expression) -> bool:
    """Whether an expression without columns is NULL."""
    if isinstance(constant, Literal):
        return constant.value is None
    if columns(constant) or constant.type == INTERVAL:
        return False
    compiled = compile_expression(constant)
    return compiled.fault is None and pl.select(compiled.value.alias("value"))["value"][0] is None


def _folded(constant: Compiled, type_: pa.DataType) -> Compiled:
    """A call without columns as a literal, unless it is in fault: Polars gives such an expression one row, not all."""
    fault = pl.lit(None, dtype=pl.String) if constant.fault is None else constant.fault
    dtype = polars_type(type_)
    found = pl.select(constant.value.cast(dtype, strict=False).alias("value"), fault.alias("fault"))
    if found["fault"][0] is not None:
        return constant
    return Compiled(pl.lit(pl.Series("", found["value"], dtype=dtype)).first())


def _literal(literal: Literal) -> pl.Expr:
    if literal.type == INTERVAL:
        return pl.lit(None, dtype=pl.Null)
    dtype = polars_type(literal.type)
    if pa.types.is_nested(literal.type):
        return pl.lit(pl.Series("", [literal.value], dtype=dtype)).first()
    return pl.lit(literal.value, dtype=dtype)


def evaluate(frame: pl.DataFrame, expressions: Mapping[str, Expression]) -> tuple[pl.DataFrame, pl.Series]:
    """Returns the values in their declared types and, for each row, its first fault or null.

    >>> from operators.expressions.build import call
    >>> a = Column("a", pa.int8())
    >>> values, faults = evaluate(pl.DataFrame({"a": pl.Series([1, 127], dtype=pl.Int8)}), {"twice": call("add", a, a)})
    >>> values["twice"].to_list(), faults.to_list()
    ([2, None], [None, 'integer overflow in "a + a"'])
    """
    if (renamed := _renamed(frame, expressions)) is not None:
        return renamed, _FAULTLESS.new_from_index(0, frame.height)
    compiled = {name: compile_expression(expression) for name, expression in expressions.items()}
    fault = first_fault([one.fault for one in compiled.values()])
    outputs = {
        f"\0{position}": one.value.cast(polars_type(expression.type), strict=False)
        for position, (one, expression) in enumerate(zip(compiled.values(), expressions.values(), strict=True))
    }
    outputs["\0fault"] = pl.lit(None, dtype=pl.String) if fault is None else fault
    result = (
        _whole(frame, frozenset().union(*map(columns, expressions.values())))
        .lazy()
        .with_columns(**outputs)
        .select(list(outputs))
    )
    done = result.collect(optimizations=_OPTIMIZATIONS, engine="in-memory")
    faults = done.drop_in_place("\0fault").alias("fault")
    done.columns = list(expressions)
    return done, faults


def _renamed(frame: pl.DataFrame, expressions: Mapping[str, Expression]) -> pl.DataFrame | None:
    """The values where all of them are columns as they are."""
    picked = [
        frame[one.name].alias(name)
        for name, one in expressions.items()
        if isinstance(one, Column) and frame.schema[one.name] == polars_type(one.type)
    ]
    return pl.DataFrame(picked) if picked and len(picked) == len(expressions) else None


def _whole(frame: pl.DataFrame, read: frozenset[str]) -> pl.DataFrame:
    """The columns that are read (else the first), none as the one value that Polars may hold instead of equal ones: a
    literal compared with such a column has one row."""
    kept = [name for name in frame.columns if name in read] or frame.columns[:1]
    return pl.DataFrame([frame[name] for name in kept]) if kept else frame
