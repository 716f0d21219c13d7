"""Runs events of aggregates in Python and converts columns and values between Arrow and generated code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa

from operators.expressions.arrow_types import polars_type
from operators.python import PythonClass, fold_events
from operators.user_aggregates.columns import listed, series


def fold_values(
    made: PythonClass,
    sizes: np.ndarray,
    codes: np.ndarray,
    arguments: Sequence[pl.Series],
    states: Sequence[bytes | None],
) -> tuple[list[bytes | None], list[int], list[object]]:
    """The states after the events, the indexes of the events that returned a value, and these values."""
    columns = [_array(column, type_) for column, (_, type_) in zip(arguments, made.parameters, strict=True)]
    answer = fold_events(made, sizes, codes, columns, states)
    return answer.states, answer.at, _values(answer.values, made.result)


def value_of_rows(made: PythonClass, rows: Sequence[tuple[object, ...]], *, come: int, end: int) -> list[object]:
    """The values returned for the rows of one group, for a call in the body of another aggregate."""
    names = [name for name, _ in made.parameters]
    columns = [series(name, [row[at] for row in rows], made.parameters[at][1]) for at, name in enumerate(names)]
    codes = np.full(len(rows), come)
    codes[-1:] |= end
    _, _, values = fold_values(made, np.array([len(rows)]), codes, columns, [None])
    return values


def _array(column: pl.Series, type_: pa.DataType) -> pa.Array[Any]:
    wanted = polars_type(type_)
    return (column if column.dtype == wanted else column.cast(wanted)).to_arrow().cast(type_)


def _values(array: pa.Array[Any], type_: pa.DataType) -> list[object]:
    if not pa.types.is_struct(type_):
        made = pl.from_arrow(array)
        assert isinstance(made, pl.Series)
        return listed(made, type_)
    fields = [_values(cast(pa.StructArray, array).field(at), field.type) for at, field in enumerate(type_)]
    names = [field.name for field in type_]
    rows = zip(array.is_valid().to_pylist(), *fields, strict=True)
    return [dict(zip(names, values, strict=True)) if valid else None for valid, *values in rows]
