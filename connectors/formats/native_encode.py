"""Encodes columns as records with the native part (`connectors/native/json_write.c`, `avro_write.c`).

It is an addition to `json_encode` and `avro_encode`: the bytes of each record are the same. The property tests compare
them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats.arrow_buffers import arrow_buffer
from connectors.formats.native_columns import GivenColumns, Shape, shapes_of
from connectors.formats.native_rows import MOST_BYTES, Bytes
from connectors.native.library import library

#: The bytes of the first buffer. The records in it show how large the next one must be.
FIRST_BYTES = 1 << 16
_VIEW_BYTES = 16


class _Records(ctypes.Structure):
    """`records_t` in given.h: where records are written."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("used", ctypes.c_int64),
        ("views", ctypes.c_void_p),
        ("prefix", ctypes.c_char_p),
        ("buffer", ctypes.c_int64),
        ("prefix_size", ctypes.c_int64),
    ]


class NativeEncoder:
    """Encodes frames whose dtypes are those of the schema. Each record begins with `prefix`."""

    def __init__(self, shapes: Sequence[Shape], encode: Any, prefix: bytes = b"") -> None:
        self._shapes, self._encode, self._prefix = shapes, encode, prefix

    def encode(self, frame: pl.DataFrame) -> pl.Series | None:
        """A record for each row; None if the rows must be encoded, or refused, in Python: a column declared NOT NULL
        has a null, a time in JSON is not in the years 1 to 9999, or a record does not fit into 1 GiB. In JSON, a record
        may not fit if a text has more than 178 million bytes."""
        rows, done, room = len(frame), 0, FIRST_BYTES
        if not rows:
            return pl.Series("value", [], pl.Binary)
        columns, views = GivenColumns(self._shapes, frame), np.empty(_VIEW_BYTES * rows, np.uint8)
        texts: list[Bytes] = []
        while done < rows:
            buffer = np.empty(room, np.uint8)
            count, used = self._write(columns, done, rows, buffer, views, len(texts))
            if count < 0 or (count == 0 and room == MOST_BYTES):
                return None
            done += count
            room = min(max(FIRST_BYTES, used * (rows - done) * 9 // (8 * count)) if count else 4 * room, MOST_BYTES)
            texts += [buffer[:used]] if count else []
        return pl.Series("value", _binary(rows, views, texts))

    def _write(
        self, columns: GivenColumns, done: int, rows: int, buffer: Bytes, views: Bytes, number: int
    ) -> tuple[int, int]:
        """Writes the rows from `done` on into the buffer with a number, until it is full; returns how many fitted, and
        their bytes. A negative number of rows means that one of them is left to Python."""
        prefix = self._prefix
        out = _Records(buffer.ctypes.data, len(buffer), 0, views.ctypes.data, prefix, number, len(prefix))
        counts = [ctypes.c_int64(count) for count in (len(self._shapes), done, rows)]
        return int(self._encode(columns.given, *counts, ctypes.byref(out))), int(out.used)


def native_json_encoder(schema: pa.Schema) -> NativeEncoder | None:
    """The native encoder of JSON objects; None without the native part, or if it does not know the type of a column."""
    native, shapes = library(), shapes_of(schema)
    return NativeEncoder(shapes, native.dsms_json_records) if native and shapes else None


def native_avro_encoder(schema: pa.Schema, prefix: bytes) -> NativeEncoder | None:
    """The native encoder of Avro records; None without the native part, or if it does not know the type of a column."""
    native, shapes = library(), shapes_of(schema)
    return NativeEncoder(shapes, native.dsms_avro_records, prefix) if native and shapes else None


def _binary(rows: int, views: Bytes, texts: Sequence[Bytes]) -> pa.Array[Any]:
    buffers = [None, *map(arrow_buffer, (views, *texts))]
    return pa.Array.from_buffers(pa.binary_view(), rows, buffers)
