"""Expressions of the engine as functions that DuckDB calls, a few thousand rows at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from dsms.tables.select_wire import EngineFunction
from operators.core.distinct_type import stored
from operators.expressions import Column, Expression, call, evaluate

if TYPE_CHECKING:
    import duckdb

_UDF_ERROR = "Python exception occurred while executing the UDF: "


class Fault(Exception):
    """A row for which an expression has no value."""


def warm_up() -> None:
    """Evaluates an expression once, so that the engine creates its threads and other resources now."""
    evaluate(pl.DataFrame({"a": [1, 2]}), {"b": call("add", *[Column("a", pa.int64())] * 2)})


@contextmanager
def registered(database: duckdb.DuckDBPyConnection, functions: Sequence[EngineFunction]) -> Iterator[None]:
    """Registers the functions in the database while the block runs."""
    # the library is imported on first use: most coordinators do not need it
    from duckdb.func import FunctionNullHandling, PythonUDFType

    made: list[str] = []
    try:
        for function in functions:
            operands, expression = pickle.loads(function.content)
            database.create_function(
                function.name,
                _columnar(operands, expression),
                None,
                function.type,
                type=PythonUDFType.ARROW,
                null_handling=FunctionNullHandling.SPECIAL,
            )
            made.append(function.name)
        yield
    finally:
        for name in made:
            database.remove_function(name)


def reason_of(error: Exception) -> str:
    """DuckDB's reason for refusing a query, or the reason of a fault in an engine function.

    >>> reason_of(Exception("Invalid Input Error: Python exception occurred while executing the UDF: Fault: no value"))
    'no value'
    >>> reason_of(Exception("Binder Error: no such column\\nhave: a"))
    'Binder Error: no such column'
    """
    text = str(error)
    if _UDF_ERROR in text:
        return text.partition(_UDF_ERROR)[2].removeprefix(f"{Fault.__name__}: ").strip()
    return (text.splitlines() or ["out of memory"])[0]


def _columnar(operands: Sequence[str], expression: Expression) -> Callable[..., pa.Array[Any]]:
    """A function that computes an expression over columns. It raises Fault for a row without a value."""
    kind = stored(expression.type)

    def compute(*columns: Any) -> Any:
        # further operands have no name: they only give the number of rows
        names = [*operands, *(f"\0{at}" for at in range(len(columns) - len(operands)))]
        frame = pl.DataFrame([pl.Series(name, column) for name, column in zip(names, columns, strict=True)])
        values, faults = evaluate(frame, {"value": expression})
        if faults.null_count() < faults.len():
            raise Fault(faults.drop_nulls()[0])
        return values["value"].to_arrow().cast(pa.int32() if pa.types.is_null(kind) else kind)

    return compute
