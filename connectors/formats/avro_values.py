"""Converts a value that fastavro read with a `physical` schema to the one that Arrow stores in the declared column."""

import uuid
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from connectors.formats.avro_columns import TIMESTAMP_NANOS, TIMESTAMP_SCALE, Column
from connectors.formats.avro_physical import branch_of
from connectors.formats.avro_resolve import readable, resolve
from connectors.formats.avro_types import AvroField, AvroType
from connectors.formats.base import NULL_REFUSED, ValueMismatch
from connectors.formats.connect_values import iso_text, unscaled
from connectors.formats.type_names import type_name
from connectors.formats.values import Check, check_type, checked_date, checked_decimal, checked_float, checked_timestamp
from operators.core.calendar_range import DAY_US
from operators.core.distinct_type import DistinctType


def convert_column(column: Column) -> Check:
    """A function that converts a column's values. It raises ValueMismatch for a value that does not fit, such as NULL
    in a NOT NULL column.

    >>> writer = AvroType("record", fields=(AvroField("a", AvroType("int")),))
    >>> convert_column(resolve(writer, [pa.field("a", pa.int8())])[0])(7)
    7
    """
    declared = column.declared
    convert = _absent if column.writer is None else converter(column.writer, declared.type, column.children)

    def checked(value: object) -> object:
        if value is None:
            if declared.nullable:
                return None
            raise ValueMismatch(NULL_REFUSED, (declared.name,))
        try:
            return convert(value)
        except ValueMismatch as mismatch:
            raise mismatch.under(declared.name) from None

    return checked


def _absent(value: object) -> object:
    raise AssertionError(f"a field the writer does not have holds {value!r}")


def converter(writer: AvroType, declared: pa.DataType, children: tuple[Column, ...] = ()) -> Check:
    """A function that converts values of a type that `readable` accepts, except null."""
    if writer.kind == "union":
        return _of_union(writer, declared)
    if pa.types.is_struct(declared):
        return _of_record(writer, children or resolve(writer, list(declared)))
    if pa.types.is_list(declared):
        element = AvroType("record", fields=(AvroField("element", writer.branches[0]),))
        return partial(_list, convert_column(resolve(element, [declared.value_field.with_name("element")])[0]))
    if pa.types.is_decimal(declared) and writer.logical == "decimal":
        return partial(_decimal, writer.scale, declared)
    if pa.types.is_decimal(declared) and writer.kind == "record":
        return partial(_variable_decimal, declared)
    if pa.types.is_floating(declared):
        return partial(_float, type_name(declared))
    return _scalar(writer, declared)


def _scalar(writer: AvroType, declared: pa.DataType) -> Check:
    if isinstance(declared, DistinctType):
        as_stored, check = _scalar(writer, declared.storage_type), check_type(declared)
        return lambda value: check(as_stored(value))
    if pa.types.is_temporal(declared) and writer.kind == "string":
        return partial(iso_text, check_type(declared))
    if pa.types.is_timestamp(declared):
        return partial(_timestamp, writer.logical)
    if pa.types.is_date(declared):
        return _date
    if pa.types.is_string(declared):
        return _uuid if writer.kind == "fixed" else _string
    if pa.types.is_binary(declared):
        return _binary
    return check_type(declared)


def _of_union(writer: AvroType, declared: pa.DataType) -> Check:
    """A function that converts a value of a union of several types by the branch that was written."""
    branches = [_branch(branch, declared) for branch in writer.branches]

    def checked(value: object) -> object:
        index, inner = branch_of(value)
        return branches[index](inner)

    return checked


def _branch(branch: AvroType, declared: pa.DataType) -> Check:
    """A function that converts the values of a branch, or refuses all of them if they cannot be read as the declared
    type.
    """
    try:
        if not readable(branch, declared):
            raise ValueMismatch(f": Avro {branch.kind} cannot be read as {type_name(declared)}")
        return converter(branch, declared)
    except ValueMismatch as mismatch:
        return partial(_refused, mismatch)


def _refused(mismatch: ValueMismatch, _: object) -> object:
    raise ValueMismatch(mismatch.reason, mismatch.path)


def _of_record(writer: AvroType, columns: tuple[Column, ...]) -> Check:
    parts: list[tuple[str, str | None, Callable[[object], object]]] = [
        (c.declared.name, None if c.source is None else writer.fields[c.source].name, convert_column(c))
        for c in columns
    ]

    def checked(value: object) -> object:
        assert isinstance(value, dict)
        return {name: convert(None if source is None else value[source]) for name, source, convert in parts}

    return checked


def _list(convert: Check, value: object) -> object:
    assert isinstance(value, list)
    return [convert(element) for element in value]


def _decimal(scale: int, declared: pa.DataType, value: object) -> object:
    assert isinstance(value, bytes)
    return checked_decimal(declared, unscaled(value, scale, type_name(declared)))


def _variable_decimal(declared: pa.DataType, value: object) -> object:
    assert isinstance(value, dict)
    return _decimal(value["scale"], declared, value["value"])


def _float(name: str, value: object) -> object:
    assert isinstance(value, int | float)
    return checked_float(value, name)


def _date(value: object) -> object:
    assert isinstance(value, int)
    return checked_date(value, value)


def _timestamp(logical: str, value: object) -> object:
    assert isinstance(value, int)
    if logical == "date":
        return checked_timestamp(value * DAY_US, value)
    return checked_timestamp(
        value // 1000 if logical in TIMESTAMP_NANOS else value * TIMESTAMP_SCALE.get(logical, 1), value
    )


def _string(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueMismatch(": expected STRING, got bytes that are not UTF-8") from None
    assert isinstance(value, str)
    return value


def _binary(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def _uuid(value: object) -> object:
    assert isinstance(value, bytes)
    return str(uuid.UUID(bytes=value))
