"""Decodes Avro records of one writer schema with the native part (`connectors/native/avro_rows.c`).

This is possible if all unions of the schema are with null only, and the native part knows the declared columns' types.
On every row that it decodes, `avro_records` agrees: the property tests compare them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from connectors.formats.avro_columns import Column
from connectors.formats.avro_program import Field, Program, program_of
from connectors.formats.avro_types import AvroType
from connectors.formats.binary_column import BinaryColumn
from connectors.formats.native_rows import FIRST_ELEMENTS, RowMemory, address
from connectors.native.library import library
from operators.core.distinct_type import stored

Mask = NDArray[np.bool_]


class NativeAvro:
    """Decodes the bodies of records of one writer schema."""

    def __init__(self, program: Program, columns: Sequence[Column], native: ctypes.CDLL) -> None:
        self._columns, self._slots, self._places = columns, program.slots, program.places
        self._decode, self._elements = native.dsms_avro_rows, FIRST_ELEMENTS
        self._fields = (Field * len(program.fields))(*program.fields)

    def decode(self, bodies: BinaryColumn) -> tuple[pl.DataFrame, Mask]:
        """The columns of all bodies, and a mask of the bodies in doubt, whose rows are meaningless."""
        doubt = np.empty(len(bodies), np.bool_)
        memory = RowMemory(self._slots, len(bodies), self._elements)
        while self._run(bodies, memory, doubt) < 0:
            self._elements *= 4  # each element takes a byte at least, so this ends
            memory = RowMemory(self._slots, len(bodies), self._elements)
        return pl.DataFrame([self._series(memory, at, bodies) for at in range(len(self._columns))]), doubt

    def _run(self, bodies: BinaryColumn, memory: RowMemory, doubt: Mask) -> int:
        """Decodes into the memory; returns a negative number if it has no room for all elements."""
        counts = [ctypes.c_int64(number) for number in (len(bodies), len(self._fields), len(self._slots))]
        return int(
            self._decode(
                address(bodies.raw), address(bodies.starts), address(bodies.ends), counts[0], self._fields, counts[1],
                memory.targets, counts[2], address(doubt),
            )
        )  # fmt: skip

    def _series(self, memory: RowMemory, at: int, bodies: BinaryColumn) -> pl.Series:
        place, declared = self._places[at], self._columns[at].declared
        return _nulls(declared, len(bodies)) if place is None else memory.series(place, bodies.raw)


def native_avro(writer: AvroType, columns: Sequence[Column]) -> NativeAvro | None:
    """The native decoder of a writer schema; None without the native part, or if that cannot read the schema."""
    native, program = library(), program_of(writer, columns)
    return NativeAvro(program, columns, native) if native and program else None


def _nulls(field: pa.Field[Any], count: int) -> pl.Series:
    declared: Any = stored(field.type)
    return pl.Series(field.name, pa.nulls(count, declared))
