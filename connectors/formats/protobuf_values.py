"""Values of Protobuf's messages as the plain values that the checks of declared columns take."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

#: A value of a field, never absent, as a plain value.
Convert = Callable[[Any], object]
#: The value of a field of a message, None where it has none.
Read = Callable[[Message], object]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT = Context(prec=1000)


def reader_of(message: Descriptor, columns: Iterable[pa.Field[Any]]) -> Callable[[Message], dict[str, object]]:
    """Reads the fields that columns may take, those with a column's name but for case, by their names."""
    declared = {column.name.casefold(): column.type for column in columns}
    reads: dict[str, Read] = {
        field.name: _read(field, declared[field.name.casefold()])
        for field in message.fields
        if field.name.casefold() in declared
    }
    return lambda value: {name: read(value) for name, read in reads.items()}


def _read(field: FieldDescriptor, declared: pa.DataType) -> Read:
    """A field without a value is NULL if its presence is known, else its default. One that says its default has it."""
    name, present = field.name, field.has_presence and not field.has_default_value
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field, field.message_type, declared)
    if field.is_repeated:
        element = _convert(field, _element(declared))
        return lambda message: [element(value) for value in getattr(message, name)]
    convert = _convert(field, declared)
    if present:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _map(field: FieldDescriptor, entry: Descriptor, declared: pa.DataType) -> Read:
    """A map in the order of its keys: as an array of {key, value}, or as an object with its keys for names."""
    name = field.name
    listed, struct = pa.types.is_list(declared), _element(declared)
    of_value = {part.name.casefold(): part.type for part in struct} if listed and pa.types.is_struct(struct) else {}
    same = next((part.type for part in struct), pa.null()) if pa.types.is_struct(struct) else pa.null()
    convert = _convert(entry.fields_by_name["value"], of_value.get("value", same))

    def read(message: Message) -> object:
        pairs = sorted((key, convert(value)) for key, value in _items(getattr(message, name)))
        return [{"key": k, "value": v} for k, v in pairs] if listed else {str(k): v for k, v in pairs}

    return read


def _element(declared: pa.DataType) -> pa.DataType:
    """The type of the elements of an array; of anything else the type itself."""
    return declared.value_type if isinstance(declared, pa.ListType) else declared


def _items(container: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    return [(key, container[key]) for key in container]


def _convert(field: FieldDescriptor, declared: pa.DataType) -> Convert:
    if field.enum_type is not None:
        return _enum(field.enum_type, declared)
    if field.message_type is not None:
        return _message(field.message_type, declared)
    if field.type == FieldDescriptor.TYPE_BYTES and pa.types.is_string(declared):
        return _text
    if field.type == FieldDescriptor.TYPE_STRING and pa.types.is_binary(declared):
        return str.encode
    return lambda value: value


def _enum(enum: EnumDescriptor, declared: pa.DataType) -> Convert:
    """The number for a column of integers, else the name; a number without a name is its digits."""
    if pa.types.is_integer(declared):
        return int
    names = {value.number: value.name for value in enum.values}
    return lambda number: names.get(number, str(number))


def _message(message: Descriptor, declared: pa.DataType) -> Convert:
    known = _KNOWN.get(message.full_name)
    if known is not None:
        return known
    if message.full_name.startswith("google.protobuf.") and message.name.endswith("Value") and len(message.fields) == 1:
        inner = _convert(message.fields[0], declared)
        return lambda value: inner(value.value)
    if pa.types.is_struct(declared):
        return reader_of(message, declared)
    return lambda value: {field.name: part for field, part in value.ListFields()}  # a mapping is refused elsewhere


def _text(value: bytes) -> object:
    """The text in bytes; what is no UTF-8 stays bytes, which no column of texts takes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _timestamp(value: Any) -> object:
    """An instant, cut to microseconds; one beyond the years 1 to 9999 stays what it is, which no column takes."""
    try:
        return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        return {"seconds": value.seconds, "nanos": value.nanos}


def _date(value: Any) -> object:
    try:
        return datetime.date(value.year, value.month, value.day)
    except ValueError:
        return {"year": value.year, "month": value.month, "day": value.day}


def _decimal(value: Any) -> object:
    """The unscaled number, big-endian in two's complement, with its scale. As for columns, of at most 1 000 digits."""
    if len(value.value) > 400 or abs(value.scale) > 1000:
        return {"bytes": len(value.value), "scale": value.scale}
    return Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale, _EXACT)


def _json(value: Message) -> object:
    """JSON text, for values without a schema."""
    return json.dumps(MessageToDict(value), sort_keys=True, ensure_ascii=False)


_KNOWN: dict[str, Convert] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.type.Date": _date,
    "confluent.type.Decimal": _decimal,
    "google.protobuf.Struct": _json,
    "google.protobuf.Value": _json,
    "google.protobuf.ListValue": _json,
}
