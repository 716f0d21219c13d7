"""Rows as JSON text, for dead letters and checksums."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def json_rows(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """For each row, the JSON object of the named columns; `{}` if no column is named. Bytes, which Polars cannot encode
    as JSON, are base64, as in results.

    >>> frame = pl.DataFrame({"a": [1, None], "b": [b"x", None]})
    >>> json_rows(frame, ["a", "b"]).to_list(), json_rows(frame, []).to_list()
    (['{"a":1,"b":"eA=="}', '{"a":null,"b":null}'], ['{}', '{}'])
    """
    if not names:
        return pl.Series("row", ["{}"] * frame.height, pl.String)
    columns = [_with_text(pl.col(name), frame.schema[name]).alias(name) for name in names]
    return frame.select(pl.struct(columns).struct.json_encode().alias("row")).to_series()


def _with_text(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """The value with the bytes in it encoded as text."""
    if isinstance(dtype, pl.Binary):
        return value.bin.encode("base64")
    if isinstance(dtype, pl.List) and _has_bytes(dtype):
        return value.list.eval(_with_text(pl.element(), _inner(dtype)))
    if isinstance(dtype, pl.Struct) and _has_bytes(dtype):
        parts = [_with_text(value.struct.field(part.name), _dtype(part)).alias(part.name) for part in dtype.fields]
        return pl.when(value.is_not_null()).then(pl.struct(parts))
    return value


def _has_bytes(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List):
        return _has_bytes(_inner(dtype))
    if isinstance(dtype, pl.Struct):
        return any(_has_bytes(_dtype(part)) for part in dtype.fields)
    return isinstance(dtype, pl.Binary)


def _inner(dtype: pl.List) -> pl.DataType:
    inner = dtype.inner
    assert isinstance(inner, pl.DataType)
    return inner


def _dtype(part: pl.Field) -> pl.DataType:
    assert isinstance(part.dtype, pl.DataType)
    return part.dtype
