"""Converts columns to the lists of Python values that generated code reads and returns, and back."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from operators.core.calendar_range import YEARS, times_in_range
from operators.core.errors import UserError
from operators.expressions.arrow_types import polars_type
from operators.expressions.rendering import type_name


def listed(column: pl.Series, type_: pa.DataType) -> list[object]:
    """The values of a column in the form that generated code uses: times are integers, decimals are floats.

    >>> import datetime
    >>> listed(pl.Series([datetime.date(1970, 1, 3), None]), pa.date32())
    [2, None]
    """
    if pa.types.is_timestamp(type_):
        return column.cast(pl.Datetime("us")).to_physical().to_list()
    if pa.types.is_date32(type_):
        return column.to_physical().to_list()
    wanted = polars_type(type_)
    return (column if column.dtype == wanted else column.cast(wanted)).to_list()


def series(name: str, values: Sequence[object], type_: pa.DataType) -> pl.Series:
    """The column of the values that the body of an aggregate returned.

    >>> series("n", [1, None], pa.int32()).dtype
    Int32
    """
    if pa.types.is_struct(type_):
        rows: list[dict[str, object] | None] = [value if isinstance(value, dict) else None for value in values]
        fields = [series(f.name, [None if row is None else row[f.name] for row in rows], f.type) for f in type_]
        packed = pl.DataFrame(fields).to_struct(name)
        return (
            packed
            if None not in rows
            else packed.zip_with(pl.Series([r is not None for r in rows]), packed.clear(len(rows)))
        )
    if pa.types.is_list(type_):
        lengths = [0 if value is None else len(value) for value in values]  # type: ignore[arg-type]
        flat = series(name, [item for value in values for item in (value or ())], type_.value_type)  # type: ignore[attr-defined]
        return _lists(name, flat, lengths)
    physical = (
        pl.Int64() if pa.types.is_timestamp(type_) else pl.Int32() if pa.types.is_date32(type_) else polars_type(type_)
    )
    column = pl.Series(name, values, physical, strict=True)
    if pa.types.is_temporal(type_) and not times_in_range(column, days=pa.types.is_date(type_)):
        raise UserError(f"a user-defined aggregate returned a {type_name(type_)} outside {YEARS}")
    return column.cast(polars_type(type_))


def _lists(name: str, flat: pl.Series, lengths: Sequence[int]) -> pl.Series:
    """A column of lists: cuts the values into consecutive lists of the given lengths."""
    at = [number for number, length in enumerate(lengths) for _ in range(length)]
    frame = pl.DataFrame({"__at": at, name: flat}, schema={"__at": pl.Int64, name: flat.dtype})
    grouped = frame.group_by("__at", maintain_order=True).agg(pl.col(name))
    every = pl.DataFrame({"__at": range(len(lengths))}, schema={"__at": pl.Int64})
    return every.join(grouped, on="__at", how="left", maintain_order="left")[name].alias(name)
