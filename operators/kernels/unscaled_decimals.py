"""Converts unscaled values to decimals."""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def as_decimals(whole: pl.Series, scale: int) -> pl.Series:
    """The DECIMAL(38, scale) of each unscaled value, given as DECIMAL(38, 0).

    >>> as_decimals(pl.Series([150, None]).cast(pl.Decimal(38, 0)), 2).to_list()
    [Decimal('1.50'), None]
    """
    array = whole.rechunk().to_arrow()
    moved = pa.Array.from_buffers(pa.decimal128(38, scale), len(array), array.buffers(), offset=array.offset)
    return pl.Series(whole.name, pl.from_arrow(moved))
