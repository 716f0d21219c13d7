"""Columns as the native encoders (`connectors/native`) read them, without a copy of their values."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa

from connectors.formats.native_rows import DEEPEST, Kind, storage_of
from operators.core.distinct_type import stored

Array: TypeAlias = "pa.Array[Any]"


class Given(ctypes.Structure):
    """`given_t` in given.h: a column to be encoded."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("scale", ctypes.c_int32),
        ("nullable", ctypes.c_int32),
        ("inner", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("valid", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("texts", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_int64),
    ]


@dataclass(frozen=True)
class Shape:
    """A column without its rows. The `inner` shapes after it are those of its fields or elements, at any depth. `name`
    is what JSON writes before a value of it."""

    kind: Kind
    scale: int
    nullable: bool
    inner: int
    name: bytes


def shapes_of(schema: pa.Schema) -> list[Shape] | None:
    """The shapes of all columns; None if there are none, or native encoders do not know one of them.

    >>> [shape.name for shape in shapes_of(pa.schema([("a", pa.int8()), ("b", pa.list_(pa.int8()))]))]
    [b'{"a":', b',"b":', b'']
    """
    return _records(list(schema), 0)


def _records(fields: Sequence[pa.Field[Any]], depth: int) -> list[Shape] | None:
    shapes: list[Shape] = []
    for field in fields:
        before = "," if shapes else "{"
        own = _shapes(field, f"{before}{json.dumps(field.name, ensure_ascii=False)}:", depth)
        if own is None:
            return None
        shapes += own
    return shapes or None


def _shapes(field: pa.Field[Any], name: str, depth: int) -> list[Shape] | None:
    """The shape of a column, and those in it."""
    kind, scale, inner = Kind.STRUCT, 0, None
    if depth >= DEEPEST:
        return None
    if pa.types.is_struct(field.type):
        inner = _records(list(field.type), depth + 1)
    elif pa.types.is_list(field.type):
        kind, inner = Kind.LIST, _shapes(field.type.value_field, "", depth + 1)
    elif storage := storage_of(stored(field.type)):
        kind, scale, inner = storage.kind, storage.scale, []
    return None if inner is None else [Shape(kind, scale, field.nullable, len(inner), name.encode()), *inner]


class GivenColumns:
    """The columns of a frame that has rows, in the order of their shapes. `given` is an array of `Given`; it points
    into the memory of the frame, which this object keeps."""

    def __init__(self, shapes: Sequence[Shape], frame: pl.DataFrame) -> None:
        (batch,) = frame.rechunk().to_arrow(compat_level=pl.CompatLevel.newest()).to_batches()
        self._arrays = [array for column in batch.columns for array in _arrays(column)]
        self._texts: list[object] = []
        self.given = (Given * len(shapes))()
        for given, shape, array in zip(self.given, shapes, self._arrays, strict=True):
            self._fill(given, shape, array)

    def _fill(self, given: Given, shape: Shape, array: Array) -> None:
        valid, *buffers = [None if each is None else each.address for each in array.buffers()[: _OWN[shape.kind]]]
        given.kind, given.scale, given.nullable, given.inner = shape.kind, shape.scale, shape.nullable, shape.inner
        given.name, given.name_size = shape.name, len(shape.name)
        given.offset, given.valid, given.values = array.offset, valid, buffers[0] if buffers else None
        if len(buffers) > 1:
            texts = (ctypes.c_void_p * (len(buffers) - 1))(*buffers[1:])
            self._texts.append(texts)
            given.texts = ctypes.addressof(texts)


#: How many of Arrow's buffers belong to a column itself, not to its fields or elements; the first is that of the nulls.
_OWN = {**dict.fromkeys(Kind, 2), Kind.STRUCT: 1, Kind.TEXT: None, Kind.BYTES: None}


def _arrays(array: Array) -> Iterator[Array]:
    """An array, and those in it."""
    yield array
    if isinstance(array, pa.StructArray):
        for position in range(array.type.num_fields):
            yield from _arrays(array.field(position))
    elif isinstance(array, pa.LargeListArray):
        yield from _arrays(array.values)
