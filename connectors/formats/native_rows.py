"""The memory into which native decoders (`connectors/native`) write the columns of rows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
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
#: The elements of lists for which a decoder has room at first.
FIRST_ELEMENTS = 1024
#: The deepest nesting of columns that native code reads and writes: it calls itself for each level.
DEEPEST = 32
Bytes = NDArray[np.uint8]


class UnknownType(Exception):
    """The native part does not decode a type."""


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
    LIST = 14
    STRUCT = 15


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
        ("required", ctypes.c_int64),
        ("inner", ctypes.c_int64),
        ("parent", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
    ]


@dataclass(frozen=True)
class Storage:
    """How a column stores its values, and their range; `least` and `greatest` of a decimal are explained in rows.h."""

    kind: Kind
    least: int = 0
    greatest: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Slot:
    """A column to be decoded. The `inner` slots after it are those of its fields or elements, at any depth.
    `parent` is the place of the innermost list that contains the column; -1 if none does: then it has the rows of the
    table. `nested` says that it is in another column. `symbols` are the texts of an enum.
    """

    field: pa.Field[Any]
    storage: Storage
    inner: int = 0
    parent: int = -1
    nested: bool = False
    symbols: tuple[str, ...] = ()


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
    Kind.LIST: 8, Kind.STRUCT: 0,
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
    """The columns of `count` rows. `targets` are given to a native decoder, which writes every row of each column.
    Lists have room for `elements` elements in all rows together.
    """

    def __init__(self, slots: Sequence[Slot], count: int, elements: int = 0) -> None:
        self._slots, self._count = slots, count
        rows = [count if slot.parent < 0 else elements for slot in slots]
        self._values = [_values(slot, size) for slot, size in zip(slots, rows, strict=True)]
        self._valid = [_valid(slot, size) for slot, size in zip(slots, rows, strict=True)]
        self.targets = (Target * len(slots))()
        for target, slot, values, valid in zip(self.targets, slots, self._values, self._valid, strict=True):
            storage, target.inner, target.parent = slot.storage, slot.inner, slot.parent
            target.kind, target.scale, target.row = storage.kind, storage.scale, -1
            target.least, target.greatest = storage.least, storage.greatest
            target.values, target.valid = values.ctypes.data, None if valid is None else valid.ctypes.data
            target.required, target.capacity = not slot.field.nullable, elements

    def array(self, position: int, *texts: Bytes) -> pa.Array[Any]:
        """The column at a position. `texts` are the buffers to which its views point."""
        slot, valid, target = self._slots[position], self._valid[position], self.targets[position]
        rows = self._count if slot.parent < 0 else self.targets[slot.parent].count
        nulls = validity(None if valid is None or not target.nulls else valid[:rows].view(np.bool_))
        children = [self.array(place, *texts) for place in self._children(position)]
        return _array(slot, rows, [nulls, *self._buffers(position, rows)], children, texts)

    def series(self, position: int, *texts: Bytes) -> pl.Series:
        """The same as a Polars series."""
        return pl.Series(self._slots[position].field.name, self.array(position, *texts))

    def _children(self, position: int) -> Iterator[int]:
        end = position + 1 + self._slots[position].inner
        position += 1
        while position < end:
            yield position
            position += 1 + self._slots[position].inner

    def _buffers(self, position: int, rows: int) -> list[pa.Buffer]:
        kind, values = self._slots[position].storage.kind, self._values[position]
        if kind == Kind.STRUCT:
            return []
        if kind == Kind.BOOLEAN:
            return [arrow_buffer(np.packbits(values[:rows].view(np.bool_), bitorder="little"))]
        return [arrow_buffer(values)]


def _values(slot: Slot, rows: int) -> Bytes:
    """The memory of a column. A list has the number of its elements before the first row, too."""
    kind = slot.storage.kind
    values = np.empty(_BYTES[kind] * (rows + (kind == Kind.LIST)), np.uint8)
    if kind == Kind.LIST:
        values[: _BYTES[kind]] = 0
    return values


def _valid(slot: Slot, rows: int) -> Bytes | None:
    """The memory for nulls, which a column in another one always needs: it is null if the other one is."""
    return np.empty(rows, np.uint8) if slot.field.nullable or slot.nested else None


def _array(slot: Slot, rows: int, buffers: list[Any], children: list[Any], texts: Sequence[Bytes]) -> pa.Array[Any]:
    kind = slot.storage.kind
    if kind == Kind.ENUM:
        return pa.array(slot.symbols, pa.string()).take(pa.Array.from_buffers(pa.int32(), rows, buffers))
    if kind == Kind.LIST:
        return pa.Array.from_buffers(pa.large_list(children[0].type), rows, buffers, children=children)
    if kind == Kind.STRUCT:
        fields = zip(slot.field.type, children, strict=True)
        declared = pa.struct([pa.field(field.name, child.type) for field, child in fields])
        return pa.Array.from_buffers(declared, rows, buffers, children=children)
    if view := _VIEWS.get(kind):
        return pa.Array.from_buffers(view, rows, [*buffers, *map(arrow_buffer, texts)])
    return pa.Array.from_buffers(slot.field.type, rows, buffers)


def address(array: NDArray[Any]) -> ctypes.c_void_p:
    """The address of an array, as an argument of a native function."""
    return ctypes.c_void_p(array.ctypes.data)
