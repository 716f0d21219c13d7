"""Converts values of Protobuf messages to the Python values that the checks of declared columns take."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from connectors.formats.protobuf_schema import DECIMAL_FILES

#: Converts a value of a field to a Python value.
Convert = Callable[[Any], object]
#: Reads a field of a message; None if it has no value.
Read = Callable[[Message], object]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT = Context(prec=1000)


@dataclass(frozen=True)
class UnreadableValue:
    """A value that no column accepts, with the text that the refusal shows for it."""

    text: str

    def __str__(self) -> str:
        return self.text


def reader_of(message: Descriptor, columns: Iterable[pa.Field[Any]]) -> Callable[[Message], dict[str, object]]:
    """A function that reads the fields of a message that match a column by name, ignoring case. It returns their values
    by field name.
    """
    declared = {column.name.casefold(): column.type for column in columns}
    reads: dict[str, Read] = {
        field.name: _read(field, declared[field.name.casefold()])
        for field in message.fields
        if field.name.casefold() in declared
    }
    return lambda value: {name: read(value) for name, read in reads.items()}


def _read(field: FieldDescriptor, declared: pa.DataType) -> Read:
    """A function that reads a field. An unset field has its declared default. Without one, it is NULL if Protobuf
    tracks its presence, otherwise the default of its type.
    """
    name, present = field.name, field.has_presence and not field.has_default_value
    entry = field.message_type
    if field.is_repeated and entry is not None and entry.GetOptions().map_entry:
        return _map(name, entry, declared)
    if field.is_repeated:
        element = _convert(field, declared.value_type if isinstance(declared, pa.ListType) else declared)
        return lambda message: [element(value) for value in getattr(message, name)]
    convert = _convert(field, declared)
    if present:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _map(name: str, entry: Descriptor, declared: pa.DataType) -> Read:
    """A function that reads a map in the order of its keys, as an array of {key, value} or as an object, by the
    column's type.
    """
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    if isinstance(declared, pa.ListType):
        return _listed_map(name, key, value, declared.value_type)
    if not isinstance(declared, pa.StructType):
        return lambda _: UnreadableValue(f"a map {name}")
    converts = {part.name.casefold(): _convert(value, part.type) for part in declared}

    def read(message: Message) -> object:
        container = getattr(message, name)
        parts = [(str(k), converts.get(str(k).casefold()), container[k]) for k in sorted(container)]
        return {name: convert(v) for name, convert, v in parts if convert is not None}

    return read


def _listed_map(name: str, key: FieldDescriptor, value: FieldDescriptor, pair: pa.DataType) -> Read:
    types = {part.name.casefold(): part.type for part in pair} if isinstance(pair, pa.StructType) else {}
    of_key, of_value = (_convert(part, types.get(part.name, pa.null())) for part in (key, value))

    def read(message: Message) -> object:
        container = getattr(message, name)
        return [{"key": of_key(k), "value": of_value(container[k])} for k in sorted(container)]

    return read


def _convert(field: FieldDescriptor, declared: pa.DataType) -> Convert:
    if field.enum_type is not None:
        return _enum(field.enum_type, declared)
    if field.message_type is not None:
        return _message(field.message_type, declared)
    if field.type == FieldDescriptor.TYPE_BYTES and pa.types.is_string(declared):
        return _text
    if field.type == FieldDescriptor.TYPE_STRING and pa.types.is_binary(declared):
        return lambda value: value if isinstance(value, bytes) else value.encode()  # proto2 does not check UTF-8
    return lambda value: value


def _enum(enum: EnumDescriptor, declared: pa.DataType) -> Convert:
    """A function that converts an enum to its number for an integer column, otherwise to its name. A number without a
    name becomes its digits.
    """
    if pa.types.is_integer(declared):
        return int
    names = {value.number: value.name for value in reversed(enum.values)}  # the first name of a number is used
    if pa.types.is_string(declared):
        return lambda number: names.get(number, str(number))
    return lambda number: UnreadableValue(names.get(number, str(number)))


def _message(message: Descriptor, declared: pa.DataType) -> Convert:
    if isinstance(declared, pa.StructType):
        return reader_of(message, declared)
    if message.file.name == "google/protobuf/wrappers.proto":
        inner = _convert(message.fields_by_name["value"], declared)
        return lambda wrapper: inner(wrapper.value)
    files, accepts, convert = _KNOWN.get(message.full_name, ((), None, None))
    if convert is None or message.file.name not in files or not (accepts is None or accepts(declared)):
        return lambda _: UnreadableValue(f"a message {message.full_name}")
    return convert


def _text(value: bytes) -> object:
    """The text in bytes. Bytes that are not UTF-8 are returned unchanged; the check of a string column refuses them."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _timestamp(value: Any) -> object:
    """A timestamp in the years 1 to 9999, cut to microseconds."""
    try:
        if not 0 <= value.nanos < 10**9:
            raise OverflowError
        return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        return UnreadableValue(f"{value.seconds} seconds and {value.nanos} nanoseconds")


def _date(value: Any) -> object:
    try:
        return datetime.date(value.year, value.month, value.day)
    except ValueError:
        return UnreadableValue(f"{value.year}-{value.month}-{value.day}")


def _decimal(value: Any) -> object:
    """The decimal from its unscaled value, in big-endian two's complement, and its scale. The limits are above every
    DECIMAL.
    """
    if len(value.value) > 400 or abs(value.scale) > 1000:
        return UnreadableValue(f"{len(value.value)} bytes of scale {value.scale}")
    return Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale, _EXACT)


def _json(value: Message) -> object:
    """The JSON text of a value without a schema. A value with numbers that JSON lacks (NaN, Infinity) is unreadable."""
    try:
        return json.dumps(MessageToDict(value), sort_keys=True, ensure_ascii=False)
    except ValueError as error:
        return UnreadableValue(str(error))


#: Well-known messages, with the files that may define them, a test of column types (None: all), and the conversion.
_JSON_FILE = ("google/protobuf/struct.proto",)
_KNOWN: dict[str, tuple[tuple[str, ...], Callable[[pa.DataType], bool] | None, Convert]] = {
    "google.protobuf.Timestamp": (("google/protobuf/timestamp.proto",), pa.types.is_timestamp, _timestamp),
    "google.type.Date": (("google/type/date.proto",), pa.types.is_date, _date),
    "confluent.type.Decimal": (DECIMAL_FILES, None, _decimal),
    "google.protobuf.Struct": (_JSON_FILE, pa.types.is_string, _json),
    "google.protobuf.Value": (_JSON_FILE, pa.types.is_string, _json),
    "google.protobuf.ListValue": (_JSON_FILE, pa.types.is_string, _json),
}
