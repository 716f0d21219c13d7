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

from connectors.formats.binary_column import BinaryColumn, placed
from connectors.formats.native_rows import Kind, RowMemory, Storage, address, storage_of
from connectors.native.library import library

Mask = NDArray[np.bool_]


class _Key(ctypes.Structure):
    """`json_key_t` in json_rows.c: the key of a column."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("folded", ctypes.c_char_p),
        ("size", ctypes.c_int64),
        ("folded_size", ctypes.c_int64),
    ]


class NativeJson:
    """Decodes JSON objects into columns of types that the native part knows."""

    def __init__(self, schema: pa.Schema, storages: Sequence[Storage], native: ctypes.CDLL) -> None:
        self._fields, self._storages = list(schema), storages
        self._decode = native.dsms_json_rows
        self._keys = (_Key * len(schema))(*(_key(name) for name in schema.names))

    def decode(self, values: Sequence[bytes]) -> tuple[pl.DataFrame, Mask]:
        """The columns of all values, and a mask of the values in doubt, whose rows are meaningless."""
        column = placed(values)
        memory, doubt = RowMemory(self._fields, self._storages, len(column)), np.empty(len(column), np.bool_)
        self._run(column, memory, doubt)
        return pl.DataFrame([memory.series(at, column.raw) for at in range(len(self._fields))]), doubt

    def _run(self, column: BinaryColumn, memory: RowMemory, doubt: Mask) -> None:
        self._decode(
            address(column.raw), address(column.starts), address(column.ends), ctypes.c_int64(len(column)), self._keys,
            memory.targets, ctypes.c_int64(len(self._fields)), address(doubt),
        )  # fmt: skip


def native_json(schema: pa.Schema) -> NativeJson | None:
    """The native decoder of a schema; None without the native part, or if the schema has a type that it does not know,
    or names that differ only in case.
    """
    native, storages = library(), [_storage(field.type) for field in schema]
    known = [storage for storage in storages if storage is not None]
    distinct = len({name.casefold() for name in schema.names}) == len(schema)
    return NativeJson(schema, known, native) if native and distinct and len(known) == len(storages) else None


def _storage(declared: Any) -> Storage | None:
    storage = storage_of(declared)
    return None if storage is None or storage.kind == Kind.BYTES else storage


def _key(name: str) -> _Key:
    exact, folded = name.encode(), name.casefold().encode()
    return _Key(exact, folded, len(exact), len(folded))
