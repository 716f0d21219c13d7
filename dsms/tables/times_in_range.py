"""Refuses dates and timestamps computed by DuckDB that are outside the system's range, the years 1 to 9999."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from operators.core.calendar_range import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US, YEARS
from operators.core.errors import UserError

_TIMES = ("DATE", "TIMESTAMP")


def time_columns(types: Sequence[str]) -> list[int]:
    """The positions of dates and timestamps among columns, by DuckDB's names of their types.

    >>> time_columns(["INTEGER", "DATE", "TIMESTAMP WITH TIME ZONE"])
    [1, 2]
    """
    return [at for at, kind in enumerate(types) if kind.startswith(_TIMES) and not kind.endswith("]")]


def check_times_in_rows(columns: Sequence[str], times: Sequence[int], rows: Sequence[Sequence[object]]) -> None:
    """Raises UserError for a row with a time out of range, which DuckDB gives to Python as text."""
    for at in times:
        if any(isinstance(row[at], str) for row in rows):
            raise out_of_range(columns[at])


def check_times_in_columns(table: pa.Table) -> None:
    """Raises UserError for a table with a column of times that are not all in range.

    >>> check_times_in_columns(pa.table({"at": pa.array([10**18], pa.timestamp("us"))}))
    Traceback (most recent call last):
    operators.core.errors.UserError: a value of "at" is out of range; times must be in the years 1 to 9999
    """
    for field, column in zip(table.schema, table.columns, strict=True):
        if not _in_range(column, field.type):
            raise out_of_range(field.name)


def out_of_range(column: str) -> UserError:
    """The error for a column with a time out of range."""
    return UserError(f'a value of "{column}" is out of range', hint=f"times must be in {YEARS}")


def _in_range(column: pa.ChunkedArray[Any], type_: pa.DataType) -> bool:
    whole: Any
    if pa.types.is_date32(type_):
        least, most, whole = FIRST_DAY, LAST_DAY, pa.int32()
    elif pa.types.is_timestamp(type_) and type_.unit == "us":
        least, most, whole = FIRST_US, LAST_US, pa.int64()
    else:
        return True
    import pyarrow.compute as pc  # many SELECT processes see no times, and start faster without it

    ends: Any = pc.min_max(column.cast(whole)).as_py()
    return ends["min"] is None or bool(least <= ends["min"] and ends["max"] <= most)
