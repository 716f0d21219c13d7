"""What the native part needs to know about an Avro schema: how its fields are read, and into which columns."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.formats.avro_columns import TIMESTAMP_NANOS, TIMESTAMP_SCALE, Column, convertible, vectorised
from connectors.formats.avro_resolve import resolve
from connectors.formats.avro_types import AvroField, AvroType
from connectors.formats.base import ValueMismatch
from connectors.formats.native_rows import DEEPEST, Kind, Slot, Storage, UnknownType, storage_of
from operators.core.calendar_range import DAY_US

#: How the bytes of a type are read, as in avro_rows.c.
_BOOLEAN, _LONG, _FLOAT, _DOUBLE, _SIZED, _FIXED, _TEXT, _ABSENT, _RECORD, _ARRAY, _MAP = range(11)
_READS = {
    "boolean": _BOOLEAN, "int": _LONG, "long": _LONG, "enum": _LONG, "float": _FLOAT, "double": _DOUBLE,
    "bytes": _SIZED, "string": _TEXT, "fixed": _FIXED, "record": _RECORD, "array": _ARRAY, "map": _MAP,
    "null": _ABSENT,
}  # fmt: skip
_INTEGERS = dict.fromkeys((Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.DATE, Kind.TIMESTAMP), {_LONG})
#: What the values of a column can be read from.
_READ_AS = {
    **_INTEGERS, Kind.FLOAT32: {_LONG, _FLOAT, _DOUBLE}, Kind.FLOAT64: {_LONG, _FLOAT, _DOUBLE},
    Kind.BOOLEAN: {_BOOLEAN}, Kind.TEXT: {_SIZED, _TEXT}, Kind.BYTES: {_SIZED, _TEXT, _FIXED},
    Kind.DECIMAL: {_SIZED, _FIXED},
}  # fmt: skip


class Field(ctypes.Structure):
    """`avro_field_t` in avro_rows.c: a field of the writer's record."""

    _fields_ = [
        ("reads", ctypes.c_int32),
        ("null_branch", ctypes.c_int32),
        ("column", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("scale", ctypes.c_int64),
        ("inner", ctypes.c_int64),
    ]


@dataclass(frozen=True)
class Program:
    """The fields of a record and the columns that are read from them. `places` are those of the declared columns among
    the slots; None for a column without a field."""

    fields: list[Field]
    slots: list[Slot]
    places: list[int | None]


@dataclass(frozen=True)
class _Placed:
    """A column, its place among the slots, and the fields of a struct or the element of a list."""

    column: Column
    place: int
    inner: tuple[_Placed, ...] = ()


def program_of(writer: AvroType, columns: Sequence[Column]) -> Program | None:
    """How records of a schema are read into columns; None if the native part cannot do that."""
    slots: list[Slot] = []
    try:
        placed = [_place(slots, column, -1) for column in columns if column.source is not None]
        (_, *fields) = _record(writer, placed, -1, 0, checked=not vectorised(writer))
    except (UnknownType, ValueMismatch):
        return None
    places = {id(each.column): each.place for each in placed}
    return Program(fields, slots, [places.get(id(column)) for column in columns])


def _place(slots: list[Slot], column: Column, parent: int, *, nested: bool = False) -> _Placed:
    """Adds the slots of a column."""
    place, writer, storage = len(slots), column.writer, _storage(column)
    inner: tuple[_Placed, ...] = ()
    symbols = writer.symbols if writer is not None and storage.kind == Kind.ENUM else ()
    slots.append(Slot(column.declared, storage))
    if storage.kind == Kind.STRUCT:
        inner = tuple(_place(slots, child, parent, nested=True) for child in column.children)
    elif storage.kind == Kind.LIST:
        inner = (_place(slots, _element(column), place, nested=True),)
    slots[place] = Slot(column.declared, storage, len(slots) - place - 1, parent, nested, symbols)
    return _Placed(column, place, inner)


def _element(column: Column) -> Column:
    """The elements of a list, as a column."""
    assert column.writer is not None
    record = AvroType("record", fields=(AvroField("element", column.writer.branches[0]),))
    declared: Any = column.declared.type
    return resolve(record, [declared.value_field.with_name("element")])[0]


def _storage(column: Column) -> Storage:
    """How a column is stored. Raises UnknownType if the native part does not read its type from the writer's."""
    writer, declared = column.writer, column.declared.type
    if writer is not None and writer.kind == "record" and column.children:
        return Storage(Kind.STRUCT)
    if writer is not None and writer.kind == "array" and pa.types.is_list(declared):
        return Storage(Kind.LIST)
    storage = storage_of(declared)
    if storage is None or not convertible(column):
        raise UnknownType
    if writer is None:
        return storage
    if writer.kind == "enum" and writer.symbols and storage.kind == Kind.TEXT:
        return Storage(Kind.ENUM, 0, len(writer.symbols) - 1)
    if writer.kind == "enum" or _READS.get(writer.kind) not in _READ_AS[storage.kind]:
        raise UnknownType
    return storage


def _record(writer: AvroType, placed: Sequence[_Placed], place: int, depth: int, *, checked: bool) -> list[Field]:
    """A record, its fields, and the fields that only the struct has."""
    by_source = {each.column.source: each for each in placed}
    absent = [each for each in placed if each.column.source is None]
    if len(by_source) + len(absent) < len(placed) + bool(absent):
        raise UnknownType  # two columns have the same field
    inner = [
        part
        for source, field in enumerate(writer.fields)
        for part in _field(field.type, by_source.get(source), depth + 1, checked=checked)
    ]
    inner += [Field(_ABSENT, -1, each.place, 0, 1, 0) for each in absent]
    return [Field(_RECORD, _null(writer), place, 0, 1, len(inner)), *inner]


def _field(writer: AvroType, placed: _Placed | None, depth: int, *, checked: bool) -> list[Field]:
    """A field, and those in it. `checked` says that the texts and symbols of fields without a column are checked, as
    `avro_records` does for schemas that `avro_columns` cannot read."""
    place, inner = (-1, ()) if placed is None else (placed.place, placed.inner)
    if writer.kind not in _READS or depth > DEEPEST or (writer.kind == "enum" and not writer.symbols):
        raise UnknownType
    if writer.kind == "record":
        return _record(writer, inner, place, depth, checked=checked)
    reads, size = _READS[writer.kind], writer.size
    if reads in (_ARRAY, _MAP):
        elements = _field(writer.branches[0], inner[0] if inner else None, depth + 1, checked=checked)
        return [Field(reads, _null(writer), place, 0, 1, len(elements)), *elements]
    if reads == _TEXT and not checked:
        reads = _SIZED
    if writer.kind == "enum":
        size = len(writer.symbols) if checked else 0
    scale = 1 if placed is None else _scale(writer.logical, placed.column.declared.type)
    return [Field(reads, _null(writer), place, size, scale, 0)]


def _null(writer: AvroType) -> int:
    return -1 if writer.null_branch is None else writer.null_branch


def _scale(logical: str, declared: pa.DataType) -> int:
    """The microseconds in a unit of a timestamp, or the negated number of units in a microsecond; 1 for other types."""
    if not pa.types.is_timestamp(declared):
        return 1
    if logical in TIMESTAMP_NANOS:
        return -1000
    return DAY_US if logical == "date" else TIMESTAMP_SCALE.get(logical, 1)
