"""Reads Avro bodies record by record with fastavro: for any schema, each record is either read or refused."""

import io
import struct
from collections.abc import Callable, Mapping

import fastavro

from connectors.formats.avro_columns import Column
from connectors.formats.avro_types import AvroType, physical
from connectors.formats.avro_values import convert_column
from connectors.formats.base import Unfit

_UNREADABLE = (EOFError, LookupError, ValueError, TypeError, OverflowError, struct.error, MemoryError, AssertionError)
RecordReader = Callable[[bytes], list[object]]


class Undecodable(ValueError):
    """The bytes are not a record of the writer schema."""


def record_reader(schema: Mapping[str, object], writer: AvroType, columns: tuple[Column, ...]) -> RecordReader:
    """A function from a body (without prefix) to the values of the declared columns; it raises Unfit or Undecodable."""
    parsed = fastavro.parse_schema(physical(schema))
    parts = [(None if c.source is None else writer.fields[c.source].name, convert_column(c)) for c in columns]

    def read(body: bytes) -> list[object]:
        record = _record(parsed, body)
        return [convert(None if source is None else record[source]) for source, convert in parts]

    return read


def _record(parsed: object, body: bytes) -> Mapping[str, object]:
    source = io.BytesIO(body)
    try:
        record = fastavro.schemaless_reader(source, parsed, None)
    except Unfit:
        raise
    except _UNREADABLE as error:
        raise Undecodable("not a record of its writer schema: the body is cut short or damaged") from error
    left = len(body) - source.tell()
    if left:
        raise Undecodable(f"not a record of its writer schema: surplus bytes at the end: {left}")
    assert isinstance(record, dict)
    return record
