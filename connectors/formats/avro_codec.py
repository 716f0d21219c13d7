"""Converts single rows to and from Avro records in Confluent's wire format."""

import base64
import binascii
import io
import struct
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException

from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.formats.record_codec import RegisteredSchemas, Row
from connectors.formats.wire_format import framing_fault, schema_id
from operators.core.errors import UserError

_WRONG_ROW = (ValueError, TypeError, AttributeError, LookupError, InvalidOperation, OverflowError, SchemaParseException)
_UNREADABLE = (
    *(EOFError, LookupError, ValueError, TypeError, OverflowError, RecursionError, MemoryError),
    *(struct.error, SchemaParseException),
)


class AvroCodec:
    """Encodes and decodes rows. It writes with the latest schemas of the topic's subjects."""

    def __init__(self, schemas: RegisteredSchemas, topic: str) -> None:
        self._schemas, self._topic = schemas, topic
        self._writers: dict[bool, tuple[int, Any, Any]] = {}
        self._readers: dict[int, Any] = {}

    def encode(self, row: Row, *, key: bool) -> bytes:
        """The bytes of a row; text is parsed if the schema has dates, timestamps, decimals or bytes."""
        record = io.BytesIO()
        try:
            id_, schema, parsed = self._writer(key)
            record.write(struct.pack(">bI", 0, id_))
            fastavro.schemaless_writer(record, parsed, avro_natural(row, schema))
        except _WRONG_ROW as error:
            raise UserError(f"row does not fit the Avro schema: {error}") from error
        return record.getvalue()

    def decode(self, data: bytes, *, key: bool) -> Any:
        """The row that the bytes encode."""
        if fault := framing_fault(data):
            raise UserError(f"not an Avro record with a known schema: {fault}")
        try:
            return fastavro.schemaless_reader(io.BytesIO(data[WIRE_HEADER_BYTES:]), self._reader(schema_id(data)), None)
        except _UNREADABLE as error:
            raise UserError(f"not an Avro record with a known schema: {error}") from error

    def _writer(self, key: bool) -> tuple[int, Any, Any]:
        if key not in self._writers:
            subject = f"{self._topic}-{'key' if key else 'value'}"
            latest = self._schemas.latest(subject)
            if latest is None:
                raise UserError(
                    f'subject "{subject}" has no schema in the registry', hint="register one, or use --format json"
                )
            self._writers[key] = (*latest, fastavro.parse_schema(latest[1]))
        return self._writers[key]

    def _reader(self, id_: int) -> Any:
        if id_ not in self._readers:
            try:
                self._readers[id_] = fastavro.parse_schema(self._schemas.by_id(id_))
            except LookupError as error:
                raise UserError(f"the schema of a record was not found: {error}") from error
        return self._readers[id_]


def avro_natural(value: Any, schema: Any) -> Any:
    """Converts a JSON value to the one that fastavro expects for a schema. Base64 becomes bytes; text becomes dates,
    timestamps or decimals.

    >>> avro_natural("2024-05-01", {"type": "int", "logicalType": "date"})
    datetime.date(2024, 5, 1)
    """
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return avro_natural(value, others[0]) if value is not None and len(others) == 1 else value
    if not isinstance(schema, dict):
        return _bytes(value) if schema == "bytes" and isinstance(value, str) else value
    if "logicalType" in schema:
        return _logical(value, schema["logicalType"])
    return _nested(value, schema)


def _nested(value: Any, schema: Mapping[str, Any]) -> Any:
    kind = schema["type"]
    if kind == "record" and isinstance(value, dict):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        unknown = sorted(value.keys() - types.keys())
        if unknown:
            raise ValueError(f'column "{unknown[0]}" not found; have: {", ".join(types)}')
        return {name: avro_natural(item, types[name]) for name, item in value.items()}
    if kind == "array" and isinstance(value, list):
        return [avro_natural(item, schema["items"]) for item in value]
    return avro_natural(value, kind) if isinstance(kind, (dict, list)) or kind == "bytes" else value


def _logical(value: Any, kind: str) -> Any:
    if kind == "decimal" and isinstance(value, (str, int, float)):
        return Decimal(str(value))
    if kind == "date" and isinstance(value, str):
        return date.fromisoformat(value)
    if "timestamp" in kind and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {text[:40]!r}") from error
