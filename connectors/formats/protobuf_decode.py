"""Decodes Protobuf in Confluent's wire format: a zero byte, four bytes of schema id, the path of the message among
those of its file, the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from connectors.formats.avro_buffer import PREFIX
from connectors.formats.base import Decoded, Refusal, Unfit, decoded
from connectors.formats.protobuf_schema import NotProtobuf, descriptor, is_protobuf
from connectors.formats.protobuf_values import reader_of
from connectors.formats.values import check_field, checked_row
from connectors.formats.wire_format import Unread, framing_fault, schema_id, varint

Writer = Callable[[int], Mapping[str, object]]
#: The fields of a message from its bytes.
Fields = Callable[[bytes], Mapping[str, object]]
#: Messages within messages that a path can name.
_DEEPEST = 30


class ProtobufDecoder:
    """Decodes such records into the declared columns. `writer` gives the document of a schema (`protobuf_schema`), or
    raises LookupError for an unknown id.

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
        self._fields: dict[tuple[int, tuple[int, ...]], Fields] = {}

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """The rows of the records, and a refusal for each value that is none."""
        rows: list[list[object]] = []
        kept: list[int] = []
        refused: list[Refusal] = []
        for index, value in enumerate(values):
            try:
                rows.append(checked_row(self._checks, self._message(value)))
                kept.append(index)
            except Unfit as unfit:
                refused.append(Refusal(index, str(unfit)))
        return decoded(self._schema, rows, kept, refused)

    def _message(self, value: bytes) -> Mapping[str, object]:
        if fault := framing_fault(value):
            raise Unread(fault)
        path, at = _path(value)
        key = (schema_id(value), path)
        fields = self._fields.get(key)
        if fields is None:
            fields = self._fields[key] = self._reader(*key)
        return fields(value[at:])

    def _reader(self, id_: int, path: tuple[int, ...]) -> Fields:
        """How messages of a schema are read; an unknown id is looked up again later."""
        try:
            document = self._writer(id_)
        except LookupError:
            raise Unread(f"unknown schema id {id_}") from None
        if not is_protobuf(document):
            raise Unread(f"schema {id_} is not one of Protobuf")
        try:
            message = descriptor(document, path)
        except NotProtobuf as error:
            raise Unread(f"schema {id_}: {error}") from error
        from_bytes, read = GetMessageClass(message).FromString, reader_of(message, self._schema)

        def fields(body: bytes) -> Mapping[str, object]:
            try:
                found = from_bytes(body)
                if not found.IsInitialized():
                    raise Unread(f"no message {message.full_name}: it lacks a field that it requires")
                return read(found)
            except (DecodeError, UnicodeDecodeError) as error:
                raise Unread(f"no message {message.full_name}: {error}") from error

        return fields


def _path(value: bytes) -> tuple[tuple[int, ...], int]:
    """The path of the message, and where the message begins. A count of 0 stands for the first message of the file."""
    count, at = varint(value, PREFIX)
    if not 0 <= count <= _DEEPEST:
        raise Unread(f"the path of the message has {count} parts")
    path = []
    for _ in range(count):
        index, at = varint(value, at)
        path.append(index)
    return tuple(path) or (0,), at
