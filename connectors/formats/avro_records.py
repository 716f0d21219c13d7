"""Reads Avro bodies record by record with fastavro: for any schema, each record is either read or refused."""

import io
import struct
from collections.abc import Callable, Mapping

import fastavro
from fastavro._read_py import schemaless_reader as reader_in_python

from connectors.formats.avro_columns import Column
from connectors.formats.avro_physical import physical
from connectors.formats.avro_types import AvroType, recursive
from connectors.formats.avro_values import convert_column

_UNREADABLE = (EOFError, LookupError, ValueError, TypeError, OverflowError, struct.error, MemoryError, AssertionError)
#: The deepest nesting of records and arrays in a value of a recursive type.
_DEEPEST = 100
RecordReader = Callable[[bytes], list[object]]


class Undecodable(ValueError):
    """The bytes are not a record of the writer schema."""


def record_reader(schema: Mapping[str, object], writer: AvroType, columns: tuple[Column, ...]) -> RecordReader:
    """A function from a body to the values of the declared columns; it raises ValueMismatch or Undecodable. A body is a
    record's value without the prefix that has the schema id. `schema` and `writer` are the same writer schema, as a
    document and as a type."""
    parsed = fastavro.parse_schema(physical(schema))
    of_bytes = _bounded if recursive(writer) else fastavro.schemaless_reader
    parts = [(None if c.source is None else writer.fields[c.source].name, convert_column(c)) for c in columns]

    def read(body: bytes) -> list[object]:
        record = _record(of_bytes, parsed, body)
        return [convert(None if source is None else record[source]) for source, convert in parts]

    return read


def _bounded(source: io.BytesIO, parsed: object, reader: None) -> object:
    """Reads a value of a recursive type; raises RecursionError if it is nested more deeply than _DEEPEST. fastavro's
    compiled reader uses the C stack for each level, so a body with thousands of levels crashes the process; fastavro's
    reader in Python, which is used here, raises RecursionError instead."""
    value = reader_in_python(source, parsed, reader)
    level, depth = [value], 0
    while level:
        depth += 1
        inner = (part.values() if isinstance(part, dict) else part for part in level)
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
    if depth > _DEEPEST:
        raise RecursionError
    return value


def _record(of_bytes: Callable[..., object], parsed: object, body: bytes) -> Mapping[str, object]:
    source = io.BytesIO(body)
    try:
        record = of_bytes(source, parsed, None)
    except RecursionError as error:
        raise Undecodable("not a record of its writer schema: nested too deeply") from error
    except _UNREADABLE as error:
        raise Undecodable("not a record of its writer schema: the body is cut short or damaged") from error
    left = len(body) - source.tell()
    if left:
        raise Undecodable(f"not a record of its writer schema: surplus bytes at the end: {left}")
    assert isinstance(record, dict)
    return record
