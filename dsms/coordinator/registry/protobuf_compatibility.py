"""Checks whether messages of one Protobuf schema can be read with another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from connectors.formats.protobuf_schema import parsed_file

_FIELD = FieldDescriptorProto
#: Groups of types with the same encoding: a value of one can be read as another of its group.
_GROUPS = (
    {_FIELD.TYPE_INT32, _FIELD.TYPE_INT64, _FIELD.TYPE_UINT32, _FIELD.TYPE_UINT64, _FIELD.TYPE_BOOL, _FIELD.TYPE_ENUM},
    {_FIELD.TYPE_SINT32, _FIELD.TYPE_SINT64},
    {_FIELD.TYPE_STRING, _FIELD.TYPE_BYTES},
    {_FIELD.TYPE_FIXED32, _FIELD.TYPE_SFIXED32},
    {_FIELD.TYPE_FIXED64, _FIELD.TYPE_SFIXED64},
)
Messages = Mapping[str, DescriptorProto]


def unreadable(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> list[str]:
    """The reasons why messages of the writer's schema cannot be read with the reader's schema; empty if they can. A
    field that only one of them has is compatible unless the reader requires it: fields are identified by their numbers,
    and may be absent. Messages of imported files are not compared."""
    old, new = (dict(_messages(parsed_file(schema["file"]))) for schema in (writer, reader))
    named = [name for name, message in old.items() if not message.options.map_entry]
    gone = [f"message {name} is missing" for name in named if name not in new]
    return gone + [reason for name in named if name in new for reason in _reasons(name, name, new, old)]


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    waiting = [(file.package, message) for message in file.message_type]
    while waiting:
        scope, message = waiting.pop(0)
        name = f"{scope}.{message.name}" if scope else message.name
        yield name, message
        waiting += [(name, nested) for nested in message.nested_type]


def _reasons(reader: str, writer: str, new: Messages, old: Messages) -> Iterator[str]:
    """The reasons why the message named `writer` cannot be read as the one named `reader`."""
    written = {field.number: field for field in old[writer].field}
    for field in new[reader].field:
        known = written.get(field.number)
        where = f"field {field.number} of {writer}"
        if _required(field) and not (known is not None and _required(known)):
            yield f"{where} is required, but the writer may omit it"
        elif known is not None:
            yield from (f"{where} {why}" for why in _changes(field, known, new, old))


def _changes(reader: FieldDescriptorProto, writer: FieldDescriptorProto, new: Messages, old: Messages) -> Iterator[str]:
    entries = [_entry(reader, new), _entry(writer, old)]
    if all(entries):
        yield from _reasons(entries[0], entries[1], new, old)
    elif _FIELD.LABEL_REPEATED in (reader.label, writer.label) and reader.label != writer.label:
        yield "is repeated in one of them only"
    elif reader.type != writer.type:
        if not any({reader.type, writer.type} <= group for group in _GROUPS):
            yield f"has type {_type_name(reader)} instead of {_type_name(writer)}"
    elif reader.type in (_FIELD.TYPE_MESSAGE, _FIELD.TYPE_GROUP) and reader.type_name != writer.type_name:
        yield "has another message type"


def _entry(field: FieldDescriptorProto, messages: Messages) -> str:
    """The name of the message of a map's entries; empty if the field is no map."""
    name = field.type_name.removeprefix(".")
    return name if name in messages and messages[name].options.map_entry else ""


def _required(field: FieldDescriptorProto) -> bool:
    return field.label == _FIELD.LABEL_REQUIRED


def _type_name(field: FieldDescriptorProto) -> str:
    return _FIELD.Type.Name(field.type).removeprefix("TYPE_").lower()
