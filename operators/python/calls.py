"""Calls a user-defined function over the rows of a frame."""

from __future__ import annotations

import traceback
from typing import Any

import polars as pl
import pyarrow as pa

from operators.core.calendar_range import YEARS, times_in_range
from operators.core.errors import UserError
from operators.python.child import call_on_batch
from operators.python.definition import PythonFunction
from operators.python.registered import registered
from operators.python.sandbox import FunctionFailed, sandbox_of

#: The limit of the calls that are made to find the row at which a call failed.
_TRIALS = 40


def call_function(function: PythonFunction, arguments: pl.DataFrame, rows: int) -> pl.Series:
    """Returns the values of a function for `rows` rows of arguments; without rows, the function is not called. Raises
    UserError with the function, the row and the traceback if the call fails."""
    schema = pa.schema([pa.field(name, type_) for name, type_ in function.parameters])
    columns = [_column(arguments.to_series(at), field.type, rows) for at, field in enumerate(schema)]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    if not rows:
        return _series(pa.array([], function.result))
    try:
        return _series(_called(function, batch))
    except FunctionFailed as failed:
        raise _error_of_call(function, batch, failed) from None


def _column(values: pl.Series, type_: pa.DataType, rows: int) -> pa.Array[Any]:
    repeated = values if len(values) == rows else values.new_from_index(0, rows)
    return repeated.alias("").to_arrow().cast(type_)


def _series(values: pa.Array[Any]) -> pl.Series:
    series = pl.from_arrow(values)
    assert isinstance(series, pl.Series)
    return series


def _called(function: PythonFunction, batch: pa.RecordBatch) -> pa.Array[Any]:
    values = _applied(function, batch)
    if pa.types.is_temporal(values.type):
        stored = _series(values).to_physical()
        if not times_in_range(stored, days=pa.types.is_date(values.type)):
            raise FunctionFailed(f"ValueError: it returned a time outside {YEARS}")
    return values


def _applied(function: PythonFunction, batch: pa.RecordBatch) -> pa.Array[Any]:
    if not function.package.registered:
        return sandbox_of(function).call(batch)
    try:
        return call_on_batch(registered(function.package.hash), batch, function.result)
    except Exception as error:
        raise FunctionFailed(f"{type(error).__name__}: {error}\n{traceback.format_exc()}".rstrip()) from error


def _error_of_call(function: PythonFunction, batch: pa.RecordBatch, failed: FunctionFailed) -> UserError:
    """Returns the error of a failed call; finds the row at which the call fails by halving the batch repeatedly."""
    trials, inferred = _TRIALS if failed.repeatable else 0, False
    while batch.num_rows > 1 and trials:
        trials -= 1
        half = batch.slice(0, batch.num_rows // 2)
        rest = batch.slice(half.num_rows)
        try:
            _called(function, half)
        except FunctionFailed as error:
            batch, failed, inferred = half, error, False
        else:
            batch, inferred = rest, True
    if inferred:
        try:
            _called(function, batch)
        except FunctionFailed as error:
            failed = error
    row = _row(batch)
    where = (
        f"at the row {row}" if batch.num_rows == 1 else f"in a batch of {batch.num_rows} rows that starts with {row}"
    )
    return UserError(f'function "{function.name}" failed {where}: {failed.message}')


def _row(batch: pa.RecordBatch) -> str:
    first: dict[str, Any] = batch.slice(0, 1).to_pylist()[0]
    return ", ".join(f"{name} = {value!r}" for name, value in first.items()) or "without arguments"
