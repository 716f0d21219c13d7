"""Encodes columns as JSON objects, one for each row."""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from connectors.formats.base import NULL_REFUSED, ValueMismatch, empty_frame
from connectors.formats.calendar_text import date_text, timestamp_text
from connectors.formats.native_encode import native_json_encoder
from operators.core.calendar_range import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from operators.core.distinct_type import DistinctType
from operators.core.errors import UserError
from operators.expressions.functions.conversion import converted

Conversion = Callable[[object], object]


class JsonEncoder:
    """Encodes rows as JSON that JsonDecoder reads back to the same values.

    DECIMAL is a string of exact digits, BYTES base64, DATE and TIMESTAMP ISO 8601 in UTC, and a non-finite float
    is "NaN", "Infinity" or "-Infinity".

    >>> schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.float64())])
    >>> JsonEncoder(schema).encode(pl.DataFrame({"a": [1], "b": [float("inf")]})).to_list()
    [b'{"a":1,"b":"Infinity"}']
    """

    def __init__(self, schema: pa.Schema, *, native: bool = True) -> None:
        """If `native` is false, the native part (`native_encode`) is not used. Both ways write the same bytes."""
        self._native = native_json_encoder(schema) if native else None
        self._fields = list(schema)
        self._dtypes = empty_frame(schema).schema
        self._texts = [_text(field.type, pl.col(field.name)).alias(field.name) for field in schema]
        self._floats = any(_holds_float(field.type) for field in schema)

    def encode(self, frame: pl.DataFrame) -> pl.Series:
        """A JSON object for each row."""
        if frame.columns != self._dtypes.names():
            frame = frame.select(self._dtypes.names())
        if frame.schema != self._dtypes:
            frame = frame.cast(self._dtypes)
        encoded = self._native.encode(frame) if self._native else None
        return self._in_python(frame) if encoded is None else encoded

    def _in_python(self, frame: pl.DataFrame) -> pl.Series:
        for field in self._fields:
            _refuse_nulls(field, frame[field.name], ())
        texts = frame.select(self._texts)
        if self._floats:
            return self._with_floats(texts)
        objects = texts.select(pl.struct(pl.all()).struct.json_encode().cast(pl.Binary).alias("value"))
        return objects.to_series()

    def _with_floats(self, frame: pl.DataFrame) -> pl.Series:
        """Encodes rows with floats in Python, because no Polars type holds both numbers and words such as "NaN"."""
        names = frame.columns
        columns = [_with_text(field.type, frame[field.name].to_list()) for field in self._fields]
        encode = msgspec.json.Encoder().encode
        values = [encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        return pl.Series("value", values, pl.Binary)


def _refuse_nulls(field: "pa.Field[Any]", series: pl.Series, path: tuple[str, ...]) -> None:
    if not field.nullable and series.null_count():
        raise UserError(str(ValueMismatch(NULL_REFUSED, (*path, field.name))))
    if pa.types.is_struct(field.type):
        present = series.drop_nulls()
        for child in field.type:
            _refuse_nulls(child, present.struct.field(child.name), (*path, field.name))
    if pa.types.is_list(field.type):
        elements = series.drop_nulls()
        elements = elements.filter(elements.list.len() > 0).explode()
        _refuse_nulls(field.type.value_field.with_name("element"), elements, (*path, field.name))


def _text(declared: pa.DataType, column: pl.Expr) -> pl.Expr:
    """The column, in which values of types that JSON lacks become text."""
    if isinstance(declared, DistinctType):
        return converted(column, declared, pa.string())
    if pa.types.is_decimal(declared):
        return column.cast(pl.String)
    if pa.types.is_binary(declared):
        return column.bin.encode("base64")
    if pa.types.is_date(declared):
        return column.map_batches(_dates, return_dtype=pl.String)
    if pa.types.is_timestamp(declared):
        return column.map_batches(_timestamps, return_dtype=pl.String)
    if declared == pa.float32():
        # through text, so that the FLOAT 0.1 is written as 0.1, not as 0.10000000149011612
        return column.cast(pl.String).cast(pl.Float64)
    if pa.types.is_list(declared):
        return column.list.eval(_text(declared.value_type, pl.element()))
    if pa.types.is_struct(declared):
        parts = [_text(field.type, column.struct.field(field.name)).alias(field.name) for field in declared]
        return pl.when(column.is_not_null()).then(pl.struct(parts))
    return column


def _dates(series: pl.Series) -> pl.Series:
    days = series.to_physical()
    if days.is_between(FIRST_DAY, LAST_DAY).all():
        return series.dt.strftime("%Y-%m-%d")
    return pl.Series([None if day is None else date_text(day) for day in days], dtype=pl.String)


def _timestamps(series: pl.Series) -> pl.Series:
    instants = series.to_physical()
    if instants.is_between(FIRST_US, LAST_US).all():
        return series.dt.strftime("%Y-%m-%dT%H:%M:%S%.fZ")
    return pl.Series([None if at is None else timestamp_text(at) for at in instants], dtype=pl.String)


def _holds_float(declared: pa.DataType) -> bool:
    inner = [declared.field(i).type for i in range(declared.num_fields)]
    return bool(pa.types.is_floating(declared)) or any(map(_holds_float, inner))


def _with_text(declared: pa.DataType, values: list[object]) -> list[object]:
    """The values of a type, in which non-finite floats are text, also inside lists and structs."""
    if not _holds_float(declared):
        return values
    convert = _conversion(declared)
    return [None if value is None else convert(value) for value in values]


def _conversion(declared: pa.DataType) -> Conversion:
    if pa.types.is_floating(declared):
        return _non_finite_as_text
    if pa.types.is_list(declared):
        return lambda value: _with_text(declared.value_type, value)  # type: ignore[arg-type]
    if pa.types.is_struct(declared):
        fields = list(declared)
        return lambda value: {f.name: _with_text(f.type, [value[f.name]])[0] for f in fields}  # type: ignore[index]
    return lambda value: value


def _non_finite_as_text(value: object) -> object:
    assert isinstance(value, float)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
