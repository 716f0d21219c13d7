"""Decodes Avro records of one writer schema with the native part (`connectors/native/avro_rows.c`).

This is possible for the schemas that `avro_columns` can read, if no declared column is a struct or has a type that the
native part does not know. On every row that it decodes, `avro_records` agrees: the property tests compare them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.avro_columns import TIMESTAMP_NANOS, TIMESTAMP_SCALE, Column
from connectors.formats.avro_types import AvroType
from connectors.formats.binary_column import BinaryColumn
from connectors.formats.native_rows import Bytes, Kind, RowMemory, Storage, address, storage_of
from connectors.native.library import library
from operators.core.calendar_range import DAY_US
from operators.core.distinct_type import stored

Mask = NDArray[np.bool_]
#: How the bytes of a type are read, as in avro_rows.c.
_BOOLEAN, _LONG, _FLOAT, _DOUBLE, _SIZED, _FIXED, _RECORD = range(7)
_READS = {
    "boolean": _BOOLEAN, "int": _LONG, "long": _LONG, "enum": _LONG, "float": _FLOAT, "double": _DOUBLE,
    "bytes": _SIZED, "string": _SIZED, "fixed": _FIXED, "record": _RECORD,
}  # fmt: skip
_INTEGERS = dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DATE, Kind.TIMESTAMP), {_LONG})
#: What the values of a column can be read from.
_READ_AS = {
    **_INTEGERS, Kind.FLOAT32: {_LONG, _FLOAT, _DOUBLE}, Kind.FLOAT64: {_LONG, _FLOAT, _DOUBLE},
    Kind.BOOLEAN: {_BOOLEAN}, Kind.TEXT: {_SIZED}, Kind.BYTES: {_SIZED, _FIXED}, Kind.DECIMAL: {_SIZED, _FIXED},
}  # fmt: skip


class _Field(ctypes.Structure):
    """`avro_field_t` in avro_rows.c: a field of the writer's record."""

    _fields_ = [
        ("reads", ctypes.c_int32),
        ("null_branch", ctypes.c_int32),
        ("column", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("scale", ctypes.c_int64),
    ]


class NativeAvro:
    """Decodes the bodies of records of one writer schema. `storages` are those of the columns that have a field."""

    def __init__(
        self, writer: AvroType, columns: Sequence[Column], storages: Sequence[Storage], native: ctypes.CDLL
    ) -> None:
        self._columns, self._storages, self._decode = columns, storages, native.dsms_avro_rows
        self._read = [column for column in columns if column.source is not None]
        self._memory = [_stored_field(column, storage) for column, storage in zip(self._read, storages, strict=True)]
        places = {column.source: place for place, column in enumerate(self._read)}
        fields = [
            field
            for source, each in enumerate(writer.fields)
            for field in _fields(each.type, places.get(source), self._read)
        ]
        self._fields = (_Field * len(fields))(*fields)

    def decode(self, bodies: BinaryColumn) -> tuple[pl.DataFrame, Mask]:
        """The columns of all bodies, and a mask of the bodies in doubt, whose rows are meaningless."""
        memory, doubt = RowMemory(self._memory, self._storages, len(bodies)), np.empty(len(bodies), np.bool_)
        self._decode(
            address(bodies.raw), address(bodies.starts), address(bodies.ends), ctypes.c_int64(len(bodies)),
            self._fields, ctypes.c_int64(len(self._fields)), memory.targets, ctypes.c_int64(len(self._read)),
            address(doubt),
        )  # fmt: skip
        read = iter(self._series(memory, place, bodies.raw) for place in range(len(self._read)))
        series = [_nulls(each, len(bodies)) if each.source is None else next(read) for each in self._columns]
        return pl.DataFrame(series), doubt

    def _series(self, memory: RowMemory, place: int, raw: Bytes) -> pl.Series:
        series, writer = memory.series(place, raw), self._read[place].writer
        if self._storages[place].kind != Kind.ENUM or writer is None:
            return series
        return pl.Series(writer.symbols, dtype=pl.String).gather(series).alias(series.name)


def native_avro(writer: AvroType, columns: Sequence[Column]) -> NativeAvro | None:
    """The native decoder of a writer schema that `avro_columns` can read; None without the native part, or if it does
    not know a column's type, or two columns have the same field.
    """
    native, read = library(), [column for column in columns if column.source is not None]
    storages = [storage for column in read if (storage := _storage(column)) is not None]
    distinct = len({column.source for column in read}) == len(read)
    return NativeAvro(writer, columns, storages, native) if native and distinct and len(storages) == len(read) else None


def _storage(column: Column) -> Storage | None:
    """How a column is stored; None if it is a struct, or the native part does not read its type from the writer's."""
    writer, storage = column.writer, storage_of(column.declared.type)
    if writer is None or storage is None or writer.kind not in _READS:
        return None
    if writer.kind == "enum":
        last = len(writer.symbols) - 1
        return Storage(Kind.ENUM, 0, last) if storage.kind == Kind.TEXT and last >= 0 else None
    return storage if _READS[writer.kind] in _READ_AS[storage.kind] else None


def _fields(writer: AvroType, place: int | None, read: Sequence[Column]) -> Iterator[_Field]:
    """A field of the writer's record, and the fields in it."""
    inner = [field for each in writer.fields for field in _fields(each.type, None, read)]
    scale = 1 if place is None else _scale(writer.logical, read[place].declared.type)
    null = -1 if writer.null_branch is None else writer.null_branch
    size = len(inner) if writer.kind == "record" else writer.size
    yield _Field(_READS[writer.kind], null, -1 if place is None else place, size, scale)
    yield from inner


def _scale(logical: str, declared: pa.DataType) -> int:
    """The microseconds in a unit of a timestamp, or the negated number of units in a microsecond; 1 for other types."""
    if not pa.types.is_timestamp(declared):
        return 1
    if logical in TIMESTAMP_NANOS:
        return -1000
    return DAY_US if logical == "date" else TIMESTAMP_SCALE.get(logical, 1)


def _stored_field(column: Column, storage: Storage) -> pa.Field[Any]:
    return column.declared.with_type(pa.int32()) if storage.kind == Kind.ENUM else column.declared


def _nulls(column: Column, count: int) -> pl.Series:
    declared: Any = stored(column.declared.type)
    return pl.Series(column.declared.name, pa.nulls(count, declared))
