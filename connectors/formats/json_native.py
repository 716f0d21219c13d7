"""Decodes JSON objects with the native part (`connectors/native/json_rows.c`).

It is an addition to `json_decode`: it decodes the rows whose values are clear, and `json_decode` decides about the
others. On every row that it decodes both agree: the property tests compare them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.base import ValueMismatch, frame_of
from connectors.formats.binary_column import BinaryColumn, placed
from connectors.formats.json_reading import NOT_JSON, read_json
from connectors.formats.native_rows import (
    DEEPEST,
    FIRST_ELEMENTS,
    Bytes,
    Kind,
    RowMemory,
    Slot,
    Storage,
    UnknownType,
    address,
    storage_of,
)
from connectors.formats.values import check_field
from connectors.native.library import library

Mask = NDArray[np.bool_]


class _Key(ctypes.Structure):
    """`json_key_t` in json_rows.c: the key of a column or a struct's field."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("folded", ctypes.c_char_p),
        ("size", ctypes.c_int64),
        ("folded_size", ctypes.c_int64),
    ]


class _Reader(ctypes.Structure):
    """`json_reader_t` in json_rows.c: the objects, their columns, and the memory for texts that have escapes."""

    _fields_ = [
        ("raw", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("targets", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("ascii", ctypes.c_int64),
        ("unescaped", ctypes.c_void_p),
        ("used", ctypes.c_int64),
        ("full", ctypes.c_int64),
    ]


class NativeJson:
    """Decodes JSON objects into columns. A value whose type the native part does not know is found by it, and read in
    Python.
    """

    def __init__(self, schema: pa.Schema, native: ctypes.CDLL) -> None:
        self._fields, self._decode = list(schema), native.dsms_json_rows
        self._slots: list[Slot] = []
        self._places = [_add(self._slots, field) for field in schema]
        self._checks = [check_field(field) for field in schema]
        names = [slot.field.name for slot in self._slots]
        self._ascii = all(name.casefold().isascii() for name in names)
        self._keys = (_Key * len(names))(*map(_key, names))
        self._elements = FIRST_ELEMENTS

    def decode(self, values: Sequence[bytes]) -> tuple[pl.DataFrame, Mask]:
        """The columns of all values, and a mask of the values in doubt, whose rows are meaningless."""
        objects = placed(values)
        memory, doubt = RowMemory(self._slots, len(objects), self._elements), np.empty(len(objects), np.bool_)
        while (unescaped := self._run(objects, memory, doubt)) is None:
            self._elements *= 4  # each element takes a byte at least, so this ends
            memory = RowMemory(self._slots, len(objects), self._elements)
        texts = [objects.raw, unescaped] if len(unescaped) else [objects.raw]
        series = [memory.series(place, *texts) for place in self._places]
        return pl.DataFrame([self._read(at, each, doubt) for at, each in enumerate(series)]), doubt

    def _run(self, objects: BinaryColumn, memory: RowMemory, doubt: Mask) -> Bytes | None:
        """Decodes into the memory; returns the texts that had escapes, or None if there is no room for all elements."""
        unescaped = np.empty(int(objects.sizes.sum()), np.uint8)
        reader = _Reader(
            objects.raw.ctypes.data, ctypes.addressof(self._keys), ctypes.addressof(memory.targets), len(self._slots),
            self._ascii, unescaped.ctypes.data, 0, 0,
        )  # fmt: skip
        rows = ctypes.c_int64(len(objects))
        self._decode(ctypes.byref(reader), address(objects.starts), address(objects.ends), rows, address(doubt))
        return None if reader.full else unescaped[: reader.used].copy()

    def _read(self, at: int, column: pl.Series, doubt: Mask) -> pl.Series:
        """The column, whose values are read in Python if they are text; marks those that are refused as in doubt."""
        if self._slots[self._places[at]].storage.kind != Kind.SPAN:
            return column
        values: list[object] = []
        for row, text in enumerate(column):
            try:
                values.append(None if text is None else self._checks[at](read_json(text)))
            except (ValueMismatch, *NOT_JSON):
                values.append(None)
                doubt[row] = True
        return frame_of(pa.schema([self._fields[at]]), [values]).to_series()


def native_json(schema: pa.Schema) -> NativeJson | None:
    """The native decoder of a schema; None without the native part, or if names differ only in case."""
    native, folded = library(), {name.casefold() for name in schema.names}
    return NativeJson(schema, native) if native and len(folded) == len(schema) else None


def _add(slots: list[Slot], field: pa.Field[Any]) -> int:
    """Adds the slots of a column and returns its place. Python reads its text if the native part does not know its
    type, or one in it.
    """
    place = len(slots)
    try:
        _place(slots, field, -1, 0)
    except UnknownType:
        slots[place:] = [Slot(field, Storage(Kind.SPAN))]
    return place


def _place(slots: list[Slot], field: pa.Field[Any], parent: int, depth: int) -> None:
    place, storage = len(slots), _storage(field.type)
    slots.append(Slot(field, storage))
    if depth > DEEPEST:
        raise UnknownType
    if storage.kind == Kind.LIST:
        _place(slots, field.type.value_field.with_name(""), place, depth + 1)
    elif storage.kind == Kind.STRUCT:
        for child in field.type:
            _place(slots, child, parent, depth + 1)
    slots[place] = Slot(field, storage, len(slots) - place - 1, parent, nested=depth > 0)


def _storage(declared: Any) -> Storage:
    if pa.types.is_list(declared):
        return Storage(Kind.LIST)
    if pa.types.is_struct(declared):
        names = [field.name.casefold() for field in declared]
        if not names or len(set(names)) < len(names):
            raise UnknownType
        return Storage(Kind.STRUCT)
    storage = storage_of(declared)
    if storage is None or storage.kind == Kind.BYTES:
        raise UnknownType
    return storage


def _key(name: str) -> _Key:
    exact, folded = name.encode(), name.casefold().encode()
    return _Key(exact, folded, len(exact), len(folded))
