"""Which messages of one Protobuf schema can be read with another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from connectors.formats.protobuf_schema import parsed_file

_FIELD = FieldDescriptorProto
#: Types whose values are written in the same way: one can be read as another.
_GROUPS = (
    {_FIELD.TYPE_INT32, _FIELD.TYPE_INT64, _FIELD.TYPE_UINT32, _FIELD.TYPE_UINT64, _FIELD.TYPE_BOOL, _FIELD.TYPE_ENUM},
    {_FIELD.TYPE_SINT32, _FIELD.TYPE_SINT64},
    {_FIELD.TYPE_STRING, _FIELD.TYPE_BYTES},
    {_FIELD.TYPE_FIXED32, _FIELD.TYPE_SFIXED32},
    {_FIELD.TYPE_FIXED64, _FIELD.TYPE_SFIXED64},
)


def unreadable(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> list[str]:
    """Why messages of the writer's schema cannot be read with the reader's; empty when they can. A field that only one
    of them has does no harm, unless the reader requires it: fields are known by their numbers, and may be absent."""
    old, new = (dict(_messages(parsed_file(schema["file"]))) for schema in (writer, reader))
    gone = [f"message {name} is missing" for name in old if name not in new]
    return gone + [reason for name in old if name in new for reason in _reasons(name, new[name], old[name])]


def _messages(file: Any) -> Iterator[tuple[str, DescriptorProto]]:
    waiting = [(file.package, message) for message in file.message_type]
    while waiting:
        scope, message = waiting.pop(0)
        name = f"{scope}.{message.name}" if scope else message.name
        yield name, message
        waiting += [(name, nested) for nested in message.nested_type]


def _reasons(name: str, reader: DescriptorProto, writer: DescriptorProto) -> Iterator[str]:
    written = {field.number: field for field in writer.field}
    for field in reader.field:
        old = written.get(field.number)
        if old is None and field.label == _FIELD.LABEL_REQUIRED:
            yield f"field {field.number} of {name} is required, and not written"
        if old is not None and (why := _change(field, old)):
            yield f"field {field.number} of {name} {why}"


def _change(reader: FieldDescriptorProto, writer: FieldDescriptorProto) -> str:
    if _FIELD.LABEL_REPEATED in (reader.label, writer.label) and reader.label != writer.label:
        return "is repeated in one of them only"
    if reader.type == writer.type:
        return "has another message" if _message_name(reader) != _message_name(writer) else ""
    together = any({reader.type, writer.type} <= group for group in _GROUPS)
    return "" if together else f"has type {_type_name(reader)} instead of {_type_name(writer)}"


def _message_name(field: FieldDescriptorProto) -> str:
    return field.type_name if field.type in (_FIELD.TYPE_MESSAGE, _FIELD.TYPE_GROUP) else ""


def _type_name(field: FieldDescriptorProto) -> str:
    return _FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
