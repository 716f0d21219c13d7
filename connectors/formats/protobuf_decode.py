"""Decodes Protobuf in Confluent's wire format.

A record is a zero byte, four bytes of schema id, the path of the message type in its file, and the message. The path
has the index of the type among the types of the file, then its index among the types nested in that one, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from connectors.formats.avro_buffer import WIRE_HEADER_BYTES
from connectors.formats.base import Decoded, NotARow, decode_each
from connectors.formats.protobuf_schema import NotProtobuf, ProtobufSchema, is_protobuf
from connectors.formats.protobuf_values import reader_of
from connectors.formats.values import check_field, checked_row
from connectors.formats.wire_format import framing_fault, schema_id, varint

Writer = Callable[[int], Mapping[str, object]]
#: Reads the fields of a message from its bytes.
Fields = Callable[[bytes], Mapping[str, object]]
#: The greatest length of a path.
_DEEPEST = 30
#: The number of cached readers, one for each path of a schema; only damaged records lead to more paths.
_MAX_PATHS = 1000


class ProtobufDecoder:
    """Decodes Protobuf records into the declared columns. `writer` returns the document (see `protobuf_schema`) of the
    schema with an id, or raises LookupError.

    >>> from connectors.formats.protobuf_schema import _decimal_file, document
    >>> import base64
    >>> file = base64.b64encode(_decimal_file("d.proto").SerializeToString()).decode()
    >>> decoder = ProtobufDecoder(pa.schema([pa.field("scale", pa.int64())]), {7: document(file, [])}.__getitem__)
    >>> result = decoder.decode([bytes([0, 0, 0, 0, 7, 0, 0x18, 2]), bytes([0, 0, 0, 0, 7, 2, 4, 0x18, 2])])
    >>> result.frame.rows(), result.refused[0].message
    ([(2,)], 'schema 7: the schema has no message at [2]')
    """

    def __init__(self, schema: pa.Schema, writer: Writer) -> None:
        self._schema, self._writer = schema, writer
        self._checks = [(field.name, check_field(field)) for field in schema]
        self._readers: dict[int, _Readers | str] = {}

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Decodes each record to a row, or refuses it."""
        return decode_each(self._schema, values, lambda value: checked_row(self._checks, self._message(value)))

    def field_names(self, value: bytes) -> frozenset[str]:
        """The case-folded field names of a decoded record's message type."""
        readers = self._readers[schema_id(value)]
        return frozenset() if isinstance(readers, str) else readers.field_names(_path(value)[0])

    def _message(self, value: bytes) -> Mapping[str, object]:
        if fault := framing_fault(value):
            raise NotARow(fault)
        path, at = _path(value)
        id_ = schema_id(value)
        readers = self._readers.get(id_) or self._readers_of(id_)
        if isinstance(readers, str):
            raise NotARow(f"schema {id_}: {readers}")
        try:
            return readers.reader_at(path)(value[at:])
        except NotProtobuf as error:
            raise NotARow(f"schema {id_}: {error}") from error

    def _readers_of(self, id_: int) -> _Readers | str:
        """The readers of a schema's messages, or the reason why they cannot be read. An unknown id is looked up again
        the next time.
        """
        try:
            document = self._writer(id_)
        except LookupError:
            return "it is not in the registry"
        try:
            made = (
                _Readers(ProtobufSchema(document), self._schema)
                if is_protobuf(document)
                else "it is not a Protobuf schema"
            )
        except NotProtobuf as error:
            made = str(error)
        self._readers[id_] = made
        return made


class _Readers:
    """The readers of the messages of one schema, by path."""

    def __init__(self, schema: ProtobufSchema, columns: pa.Schema) -> None:
        self._schema, self._columns = schema, columns
        self._fields: dict[tuple[int, ...], Fields] = {}

    def reader_at(self, path: tuple[int, ...]) -> Fields:
        """The reader of the message type at a path. Raises NotProtobuf if the path names no type."""
        fields = self._fields.get(path)
        if fields is None:
            fields = self._new_reader(path)
            if len(self._fields) < _MAX_PATHS:
                self._fields[path] = fields
        return fields

    def field_names(self, path: tuple[int, ...]) -> frozenset[str]:
        """The case-folded field names of the message type at a path."""
        return frozenset(field.name.casefold() for field in self._schema.message(path).fields)

    def _new_reader(self, path: tuple[int, ...]) -> Fields:
        message = self._schema.message(path)
        try:
            from_bytes, read = GetMessageClass(message).FromString, reader_of(message, self._columns)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise NotProtobuf(f"message {message.full_name} cannot be used: {error}") from error

        def fields(body: bytes) -> Mapping[str, object]:
            try:
                found = from_bytes(body)
                if not found.IsInitialized():
                    raise NotARow(f"not a message {message.full_name}: a required field is missing")
                return read(found)
            except (DecodeError, UnicodeDecodeError) as error:
                raise NotARow(f"not a message {message.full_name}: {error}") from error

        return fields


def _path(value: bytes) -> tuple[tuple[int, ...], int]:
    """The path of a record's message type, and the index of the byte at which the message begins. A path of length 0
    means the first type of the file.
    """
    count, at = varint(value, WIRE_HEADER_BYTES)
    if not 0 <= count <= _DEEPEST:
        raise NotARow(f"the path of the message has an invalid number of parts: {count}")
    path = []
    for _ in range(count):
        index, at = varint(value, at)
        path.append(index)
    return tuple(path) or (0,), at
