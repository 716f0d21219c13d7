"""Evaluates expressions as Polars expressions over the columns of a frame; faults are values, not exceptions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import INTERVAL, polars_type
from operators.expressions.function import Compiled, first_fault
from operators.expressions.functions import FUNCTIONS
from operators.expressions.functions.comparison import MIRRORED
from operators.expressions.tree import (
    Call,
    Column,
    DefinedCall,
    Expression,
    Literal,
    calls_user_function,
    columns,
    walk,
)
from operators.expressions.value_sizes import (
    GROWTH,
    LONGEST,
    LONGEST_CONSTANT,
    FrameTooLarge,
    RowTooLarge,
    checked,
    compiled_where_it_fits,
    grows,
    within,
)
from operators.python import call_function

_OPTIMIZATIONS = pl.QueryOptFlags.none().update(comm_subexpr_elim=True, simplify_expression=True)
_STRICT = frozenset({*MIRRORED, "not_equal"})
_FAULTLESS = pl.Series("fault", [None], pl.String)

Expressions: TypeAlias = Mapping[str, Expression]
Evaluated: TypeAlias = tuple[pl.DataFrame, pl.Series]
Computation: TypeAlias = Callable[[pl.DataFrame, Expressions, int], Evaluated]


@lru_cache(maxsize=8192)
def compile_expression(expression: Expression, longest: int = LONGEST) -> Compiled:
    """Returns the value and the fault as Polars expressions; the value is null where there is a fault.

    The Polars expressions raise only `RowTooLarge`, if a row would have a value of more than `longest` bytes, and
    `FrameTooLarge`, if too many rows have large values. A constant is computed here, and is a fault if it is too large.

    >>> from operators.expressions.build import call
    >>> ratio = compile_expression(call("divide", Column("a", pa.int32()), Column("b", pa.int32())))
    >>> frame = pl.DataFrame({"a": [7, 7], "b": [2, 0]}, schema={"a": pl.Int32, "b": pl.Int32})
    >>> frame.select(ratio.value.alias("value"), ratio.fault.alias("fault")).rows()
    [(3, None), (None, 'division by zero in "a / b"')]
    """
    return _compiled(expression, longest, partial(compile_expression, longest=longest))


def faultless(expression: Expression) -> bool:
    """Whether the expression has a value on every row, whatever the row is.

    >>> from operators.expressions.build import call
    >>> a = Column("a", pa.string())
    >>> faultless(call("upper", a)), faultless(call("concat", a, a))
    (True, False)
    """
    return not _growing([expression]) and compile_expression(expression, LONGEST_CONSTANT).fault is None


def _compiled(expression: Expression, longest: int, compile_: Callable[[Expression], Compiled]) -> Compiled:
    """Compiles an expression; `compile_` compiles its arguments."""
    if isinstance(expression, Column):
        return Compiled(pl.col(expression.name))
    if isinstance(expression, Literal):
        return Compiled(_literal(expression))
    if isinstance(expression, DefinedCall):
        # `evaluate` replaces such calls by columns first. Other callers only ask whether a fault is possible.
        return Compiled(
            pl.lit(None, polars_type(expression.type)), pl.lit(f'"{expression.function}" is computed elsewhere')
        )
    arguments, build = list(map(compile_, expression.arguments)), FUNCTIONS[expression.function].evaluate
    constant = not columns(expression)
    if constant and expression.function in GROWTH:
        compiled = compiled_where_it_fits(expression, arguments, within(expression, arguments, longest), longest, build)
    else:
        compiled = checked(expression, arguments, longest, build)
    if expression.function in _STRICT and any(_is_null(argument, longest) for argument in expression.arguments):
        # Polars evaluates a column compared with NULL as a NULL of the column's type, not as a BOOLEAN.
        compiled = Compiled(pl.lit(None, dtype=pl.Boolean), compiled.fault)
    return compiled if not constant or expression.type == INTERVAL else _constant_folded(compiled, expression.type)


def _is_null(constant: Expression, longest: int) -> bool:
    """Whether an expression without columns is NULL."""
    if isinstance(constant, Literal):
        return constant.value is None
    if columns(constant) or constant.type == INTERVAL:
        return False
    compiled = compile_expression(constant, longest)
    return compiled.fault is None and pl.select(compiled.value.alias("value"))["value"][0] is None


def _constant_folded(constant: Compiled, type_: pa.DataType) -> Compiled:
    """Replaces a call without columns by a literal, because Polars evaluates such a call to a single row."""
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


def evaluate(
    frame: pl.DataFrame, expressions: Mapping[str, Expression], longest: int = LONGEST
) -> tuple[pl.DataFrame, pl.Series]:
    """Returns the values in their declared types, a column for each expression, and each row's first fault or null.

    A row with a value of more than `longest` bytes is in fault. A frame whose values are too large together is
    evaluated in pieces.

    >>> from operators.expressions.build import call
    >>> a = Column("a", pa.int8())
    >>> values, faults = evaluate(pl.DataFrame({"a": pl.Series([1, 127], dtype=pl.Int8)}), {"twice": call("add", a, a)})
    >>> values["twice"].to_list(), faults.to_list()
    ([2, None], [None, 'integer overflow in "a + a"'])
    """
    if (renamed := _renamed(frame, expressions)) is not None:
        return renamed, _FAULTLESS.new_from_index(0, frame.height)
    if any(map(calls_user_function, expressions.values())):
        return _with_defined(frame, expressions, longest)
    return _bounded(frame, expressions, longest, _computed)


def _bounded(frame: pl.DataFrame, expressions: Expressions, longest: int, compute: Computation) -> Evaluated:
    """As `evaluate`. First assumes that all values are short. If a single row is too large, computes with faults for
    such rows; if the frame is too large, computes its halves separately."""
    try:
        return compute(frame, expressions, longest)
    except RowTooLarge:
        return _bounded(frame, expressions, longest, _with_faults)
    except FrameTooLarge:
        half = frame.height // 2
        halves = [_bounded(part, expressions, longest, compute) for part in (frame[:half], frame[half:])]
        return pl.concat([values for values, _ in halves]), pl.concat([faults for _, faults in halves])


def _with_faults(frame: pl.DataFrame, expressions: Expressions, longest: int) -> Evaluated:
    """As `evaluate`, for frames with rows that may be too large. Computes each call whose value may be larger than its
    arguments before the expression around it, as one column for its value and one for its fault."""
    frame = _read_columns(frame, frozenset().union(*map(columns, expressions.values())))
    known: dict[Expression, Compiled] = {}

    def compiled(node: Expression) -> Compiled:
        return known[node] if node in known else _compiled(node, longest, compiled)

    for at, call in enumerate(_growing(expressions.values())):
        arguments, fits, value, fault = (
            list(map(compiled, call.arguments)),
            f"\0fits{at}",
            f"\0value{at}",
            f"\0fault{at}",
        )
        frame = _selected(frame, {fits: within(call, arguments, longest)})
        made = compiled_where_it_fits(call, arguments, pl.col(fits), longest, FUNCTIONS[call.function].evaluate)
        assert made.fault is not None
        frame = _selected(frame, {value: made.value.cast(polars_type(call.type)), fault: made.fault})
        known[call] = Compiled(pl.col(value), pl.col(fault))
    return _programmed(frame, expressions, {name: compiled(each) for name, each in expressions.items()})


def _growing(expressions: Iterable[Expression]) -> list[Call]:
    """Returns the calls with columns whose values may be larger than their arguments, inner calls first."""
    nodes = dict.fromkeys(node for expression in expressions for node in walk(expression))
    found = [node for node in nodes if isinstance(node, Call) and grows(node) and columns(node)]
    return sorted(found, key=lambda node: sum(1 for _ in walk(node)))


def _selected(frame: pl.DataFrame, outputs: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Returns the frame with `outputs` as additional columns."""
    return frame.lazy().with_columns(**outputs).collect(optimizations=_OPTIMIZATIONS, engine="in-memory")


def _computed(frame: pl.DataFrame, expressions: Expressions, longest: int) -> Evaluated:
    compiled = {name: compile_expression(expression, longest) for name, expression in expressions.items()}
    read = _read_columns(frame, frozenset().union(*map(columns, expressions.values())))
    return _programmed(read, expressions, compiled)


def _programmed(frame: pl.DataFrame, expressions: Expressions, compiled: Mapping[str, Compiled]) -> Evaluated:
    """Returns the values and faults that compiled expressions compute."""
    fault = first_fault([program.fault for program in compiled.values()])
    outputs = {
        f"\0{position}": program.value.cast(polars_type(expression.type), strict=False)
        for position, (program, expression) in enumerate(zip(compiled.values(), expressions.values(), strict=True))
    }
    outputs["\0fault"] = pl.lit(None, dtype=pl.String) if fault is None else fault
    result = frame.lazy().with_columns(**outputs).select(list(outputs))
    evaluated = result.collect(optimizations=_OPTIMIZATIONS, engine="in-memory")
    faults = evaluated.drop_in_place("\0fault").alias("fault")
    evaluated.columns = list(expressions)
    return evaluated, faults


def _with_defined(
    frame: pl.DataFrame, expressions: Mapping[str, Expression], longest: int
) -> tuple[pl.DataFrame, pl.Series]:
    """As `evaluate`, for expressions that call user-defined functions. Computes the innermost of these calls first,
    each once. Where an argument is in fault, the function gets NULL, and the row is in fault."""
    inner = {node: None for expression in expressions.values() for node in _innermost(expression)}
    computed: dict[Expression, Column] = {}
    faults: list[pl.Series] = []
    for call in inner:
        assert call.definition is not None
        name = f"\0defined{frame.width}"
        arguments, fault = evaluate(frame, {f"\0{at}": argument for at, argument in enumerate(call.arguments)}, longest)
        computed[call] = Column(name, call.type, True)
        faults.append(fault)
        frame = frame.with_columns(call_function(call.definition, arguments, frame.height).alias(name))
    outputs = {name: _replaced(expression, computed) for name, expression in expressions.items()}
    values, fault = evaluate(frame, outputs, longest)
    first = pl.select(pl.coalesce(*faults, fault)).to_series() if frame.height else fault
    return values, first.alias("fault")


def _innermost(expression: Expression) -> list[DefinedCall]:
    """Returns the calls of user-defined functions whose arguments contain no such call."""
    return [
        node
        for node in walk(expression)
        if isinstance(node, DefinedCall) and not any(map(calls_user_function, node.arguments))
    ]


def _replaced(expression: Expression, computed: Mapping[Expression, Column]) -> Expression:
    if (column := computed.get(expression)) is not None:
        return column
    if not isinstance(expression, Call):
        return expression
    return replace(expression, arguments=tuple(_replaced(argument, computed) for argument in expression.arguments))


def _renamed(frame: pl.DataFrame, expressions: Mapping[str, Expression]) -> pl.DataFrame | None:
    """Returns the values if all expressions are columns that already have their declared types, else None."""
    picked = [
        frame[expression.name].alias(name)
        for name, expression in expressions.items()
        if isinstance(expression, Column) and frame.schema[expression.name] == polars_type(expression.type)
    ]
    return pl.DataFrame(picked) if picked and len(picked) == len(expressions) else None


def _read_columns(frame: pl.DataFrame, read: frozenset[str]) -> pl.DataFrame:
    """Returns the columns that are read, or the first column if no column is read. Rebuilding the frame materialises
    columns that Polars holds as a single repeated value: comparing such a column with a literal would return one
    row."""
    kept = [name for name in frame.columns if name in read] or frame.columns[:1]
    return pl.DataFrame([frame[name] for name in kept]) if kept else frame
