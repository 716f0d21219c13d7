"""Converts JSON values by the schema that Kafka Connect's JsonConverter writes with each payload. The schema names
types such as Debezium's MicroTimestamp. Avro schemas name them too; `avro_types` reads those.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from connectors.formats.base import NotARow, ValueMismatch
from connectors.formats.calendar_text import date_text, timestamp_text
from connectors.formats.connect_names import ISO_DATE, ISO_TIMESTAMPS, VARIABLE_DECIMAL, logical_of, scale_of
from connectors.formats.connect_values import unscaled, without_zone
from connectors.formats.json_reading import read_json
from connectors.formats.type_names import type_name
from connectors.formats.values import mismatch_error
from operators.core.calendar_range import DAY_US

#: A function that converts a value that is not NULL.
Conversion = Callable[[Any], object]
#: The number of schemas in the cache, and the bytes of the largest one: the cache stays below 26 MB. A topic has only a
#: few schemas.
_MAX_SCHEMAS, _LARGEST_SCHEMA = 100, 256 * 1024
_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


class Node(msgspec.Struct):
    """A type in a Connect schema. `name` is its semantic type, `field` its name as a field of a struct."""

    field: str | None = None
    name: str | None = None
    parameters: dict[str, Any] | None = None
    fields: list[Node] | None = None
    items: Node | None = None


_NODE = msgspec.json.Decoder(Node).decode


class ConnectRows:
    """Converts rows in JSON to the notation that `JsonDecoder` reads, by the schemas that are sent with them.

    >>> rows = ConnectRows(pa.schema([pa.field("at", pa.timestamp("us"))]))
    >>> schema = b'{"fields": [{"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}]}'
    >>> rows.converted(schema, None, b'{"at": 1000001}'), rows.converted(b"null", None, b'{"at": 7}')
    (b'{"at":"1970-01-01T00:00:01.000001Z"}', b'{"at": 7}')
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._fields = list(schema)
        self._conversions: dict[tuple[bytes, str | None], Mapping[str, Conversion]] = {}

    def converted(self, schema: bytes, part: str | None, row: bytes) -> bytes:
        """The converted row. `part` names the field of the schema that describes the row; None means the whole schema.
        Raises NotARow or ValueMismatch.
        """
        conversions = self._conversions.get((schema, part))
        if conversions is None:
            conversions = self._found(schema, part)
            if len(self._conversions) < _MAX_SCHEMAS and len(schema) <= _LARGEST_SCHEMA:
                self._conversions[schema, part] = conversions
        return _ENCODE(_converted(conversions, read_json(row))) if conversions else row

    def _found(self, schema: bytes, part: str | None) -> Mapping[str, Conversion]:
        if schema == b"null":
            return {}
        try:
            node = _NODE(schema)
        except msgspec.DecodeError as error:
            raise NotARow(f"the schema sent with the row is not a Kafka Connect schema: {error}") from error
        inner = node if part is None else next((each for each in node.fields or () if each.field == part), Node())
        return _of_fields(self._fields, inner)


def _of_fields(declared: Iterable[pa.Field[Any]], node: Node) -> Mapping[str, Conversion]:
    """The conversions of the fields of a struct that match columns, by field name."""
    types = {field.name.casefold(): field.type for field in declared}
    nodes = {node.field: node for node in node.fields or () if node.field and node.field.casefold() in types}
    found = {name: _conversion(types[name.casefold()], each) for name, each in nodes.items()}
    return {name: conversion for name, conversion in found.items() if conversion is not None}


def _conversion(declared: pa.DataType, node: Node) -> Conversion | None:
    if isinstance(declared, pa.StructType) and node.fields and logical_of(node.name) != VARIABLE_DECIMAL:
        fields = _of_fields(declared, node)
        return partial(_converted, fields) if fields else None
    if isinstance(declared, pa.ListType) and node.items:
        inner = _conversion(declared.value_type, node.items)
        return partial(_elements, inner) if inner else None
    return _scalar(declared, logical_of(node.name), node)


def _scalar(declared: pa.DataType, logical: str, node: Node) -> Conversion | None:
    if pa.types.is_timestamp(declared):
        known = _TIMESTAMPS.get(logical)
        return known if known or logical in _AS_THEY_ARE else _refusal(node, declared)
    if pa.types.is_date(declared):
        known = _DATES.get(logical)
        return known if known or not logical else _refusal(node, declared)
    if pa.types.is_decimal(declared):
        return _decimals(declared, logical, scale_of(node.parameters))
    if pa.types.is_string(declared) and logical in ("decimal", VARIABLE_DECIMAL):
        return _refusal(node, declared)
    return None


def _decimals(declared: pa.DataType, logical: str, scale: int) -> Conversion | None:
    if logical == "decimal":
        return partial(_decimal, type_name(declared), scale)
    return partial(_variable_decimal, type_name(declared)) if logical == VARIABLE_DECIMAL else None


def _refusal(node: Node, declared: pa.DataType) -> Conversion:
    def refuse(_: object) -> object:
        raise ValueMismatch(f": {node.name} cannot be read as {type_name(declared)}")

    return refuse


def _converted(conversions: Mapping[str, Conversion], row: object) -> object:
    if not isinstance(row, dict):
        return row
    for name, conversion in conversions.items():
        if (value := row.get(name)) is not None:
            try:
                row[name] = conversion(value)
            except ValueMismatch as mismatch:
                raise mismatch.under(name) from None
    return row


def _elements(conversion: Conversion, values: object) -> object:
    return [None if value is None else conversion(value) for value in values] if isinstance(values, list) else values


def _whole(text: Callable[[int], str], value: object) -> object:
    return text(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _decimal(name: str, scale: int, value: object) -> object:
    """A decimal from the base64 of its unscaled value. A number, which JsonConverter may also write, stays."""
    if not isinstance(value, str):
        return value
    try:
        body = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise mismatch_error(f"{name} (base64)", value) from None
    return str(unscaled(body, scale, name))


def _variable_decimal(name: str, value: object) -> object:
    scale, digits = (value.get("scale"), value.get("value")) if isinstance(value, dict) else (None, None)
    if isinstance(scale, int) and isinstance(digits, str):
        return _decimal(name, scale, digits)
    raise mismatch_error(f"{name} as an object with scale and value", value)


#: Logical types of times that `JsonDecoder` reads unchanged: milliseconds, text, and numbers without a semantic type.
_AS_THEY_ARE = ISO_TIMESTAMPS | {"", "timestamp-millis"}
_TIMESTAMPS: Mapping[str, Conversion] = {
    "timestamp-micros": partial(_whole, timestamp_text),
    "timestamp-nanos": partial(_whole, lambda count: timestamp_text(count // 1000)),
    "date": partial(_whole, lambda days: timestamp_text(days * DAY_US)),
}
_DATES: Mapping[str, Conversion] = {"date": partial(_whole, date_text), ISO_DATE: without_zone}
