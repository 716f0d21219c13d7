"""The memory into which native decoders (`connectors/native`) write the columns of rows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.arrow_buffers import arrow_buffer, validity
from connectors.formats.values import integer_range
from operators.core.calendar_range import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US

#: The most bytes that are decoded at once: views have 32 bits for a position.
MOST_BYTES = 1 << 30
Bytes = NDArray[np.uint8]


class Kind(IntEnum):
    """How a column stores its values, as in rows.h."""

    INT8 = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FLOAT32 = 4
    FLOAT64 = 5
    BOOLEAN = 6
    TEXT = 7
    BYTES = 8
    DECIMAL = 9
    DATE = 10
    TIMESTAMP = 11
    ENUM = 12
    SPAN = 13


class Target(ctypes.Structure):
    """`target_t` in rows.h: the memory of a column."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("scale", ctypes.c_int32),
        ("least", ctypes.c_int64),
        ("greatest", ctypes.c_int64),
        ("row", ctypes.c_int64),
        ("nulls", ctypes.c_int64),
        ("values", ctypes.c_void_p),
        ("valid", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Storage:
    """How a column stores its values, and their range; `least` and `greatest` of a decimal are explained in rows.h."""

    kind: Kind
    least: int = 0
    greatest: int = 0
    scale: int = 0


_SIMPLE = {
    pa.bool_(): Storage(Kind.BOOLEAN),
    pa.float32(): Storage(Kind.FLOAT32),
    pa.float64(): Storage(Kind.FLOAT64),
    pa.string(): Storage(Kind.TEXT),
    pa.binary(): Storage(Kind.BYTES),
    pa.date32(): Storage(Kind.DATE, FIRST_DAY, LAST_DAY),
    pa.timestamp("us"): Storage(Kind.TIMESTAMP, FIRST_US, LAST_US),
}
_INTEGERS = {8: Kind.INT8, 16: Kind.INT16, 32: Kind.INT32, 64: Kind.INT64}
_BYTES = {
    Kind.INT8: 1, Kind.INT16: 2, Kind.INT32: 4, Kind.INT64: 8, Kind.FLOAT32: 4, Kind.FLOAT64: 8, Kind.BOOLEAN: 1,
    Kind.TEXT: 16, Kind.BYTES: 16, Kind.DECIMAL: 16, Kind.DATE: 4, Kind.TIMESTAMP: 8, Kind.ENUM: 4, Kind.SPAN: 16,
}  # fmt: skip
_VIEWS = {Kind.TEXT: pa.string_view(), Kind.BYTES: pa.binary_view(), Kind.SPAN: pa.binary_view()}


@lru_cache(maxsize=256)
def storage_of(declared: pa.DataType) -> Storage | None:
    """How columns of a type are stored; None for a type that native decoders do not know.

    >>> storage_of(pa.int8()), storage_of(pa.list_(pa.int8()))
    (Storage(kind=<Kind.INT8: 0>, least=-128, greatest=127, scale=0), None)
    """
    if pa.types.is_integer(declared):
        return Storage(_INTEGERS[declared.bit_width], *integer_range(declared))
    if pa.types.is_decimal128(declared):
        high, low = divmod(10**declared.precision, 1 << 64)
        return Storage(Kind.DECIMAL, low, high, declared.scale)
    return _SIMPLE.get(declared)


class RowMemory:
    """The columns of `count` rows. `targets` are given to a native decoder, which writes every row of each column."""

    def __init__(self, fields: Sequence[pa.Field[Any]], storages: Sequence[Storage], count: int) -> None:
        self._fields, self._storages, self._count = fields, storages, count
        self._values: list[Bytes] = [np.empty(_BYTES[s.kind] * count, np.uint8) for s in storages]
        self._valid: list[Bytes | None] = [np.empty(count, np.uint8) if f.nullable else None for f in fields]
        self.targets = (Target * len(fields))()
        for target, storage, values, valid in zip(self.targets, storages, self._values, self._valid, strict=True):
            target.kind, target.scale, target.row = storage.kind, storage.scale, -1
            target.least, target.greatest = storage.least, storage.greatest
            target.values, target.valid = values.ctypes.data, None if valid is None else valid.ctypes.data

    def array(self, position: int, *texts: Bytes) -> pa.Array[Any]:
        """The column at a position. `texts` are the buffers to which its views point."""
        storage, values, valid = self._storages[position], self._values[position], self._valid[position]
        nulls = validity(None if valid is None or not self.targets[position].nulls else valid.view(np.bool_))
        if storage.kind == Kind.BOOLEAN:
            values = np.packbits(values.view(np.bool_), bitorder="little")
        buffers = [nulls, arrow_buffer(values)]
        if view := _VIEWS.get(storage.kind):
            return pa.Array.from_buffers(view, self._count, [*buffers, *map(arrow_buffer, texts)])
        return pa.Array.from_buffers(self._fields[position].type, self._count, buffers)

    def series(self, position: int, *texts: Bytes) -> pl.Series:
        """The same as a Polars series."""
        return pl.Series(self._fields[position].name, self.array(position, *texts))


def address(array: NDArray[Any]) -> ctypes.c_void_p:
    """The address of an array, as an argument of a native function."""
    return ctypes.c_void_p(array.ctypes.data)
