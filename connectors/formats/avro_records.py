"""Reads records of any Avro schema one by one with fastavro; an invalid one is refused."""

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
    """A function that reads the declared columns from a body: the value of a record after the prefix with the schema
    id.

    It raises Undecodable if the body is not a record of the writer schema, and ValueMismatch if a value does not fit
    its column. `schema` and `writer` are the same writer schema, as a document and as a type.
    """
    parsed = fastavro.parse_schema(physical(schema))
    of_bytes = _bounded if recursive(writer) else fastavro.schemaless_reader
    parts = [(None if c.source is None else writer.fields[c.source].name, convert_column(c)) for c in columns]

    def read(body: bytes) -> list[object]:
        record = _record(of_bytes, parsed, body)
        return [convert(None if source is None else record[source]) for source, convert in parts]

    return read


def _bounded(source: io.BytesIO, parsed: object, reader: None) -> object:
    """Reads a value of a recursive type. Raises RecursionError if it is nested more deeply than _DEEPEST.

    fastavro's compiled reader would use the C stack for each level, and a body with thousands of levels would crash the
    process. Its reader in Python raises RecursionError instead.
    """
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
