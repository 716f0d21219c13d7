"""Compiled Protobuf files, as the compiler would make them from .proto files."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

#: Types of fields by name: a type of Protobuf, ".full.name" of a message, or "enum.full.name" of an enum.
Fields = dict[str, str]


def message(name: str, fields: Fields, *, nested: tuple[DescriptorProto, ...] = ()) -> DescriptorProto:
    """A message with fields numbered from 1. A type may begin with "repeated ", "optional " or "required "."""
    made = DescriptorProto(name=name, nested_type=nested)
    for number, (field, type_) in enumerate(fields.items(), 1):
        _add(made, field, number, type_)
    return made


def map_entry(name: str, key: str, value: str) -> DescriptorProto:
    """The message type of a map's entries; the field of the map is "repeated" of this type."""
    made = message(name, {"key": key, "value": value})
    made.options.map_entry = True
    return made


def file(name: str, *messages: DescriptorProto, syntax: str = "proto3", **parts: Any) -> FileDescriptorProto:
    """A file with messages in package "shop"."""
    return FileDescriptorProto(name=name, package="shop", syntax=syntax, message_type=messages, **parts)


def as_text(compiled: FileDescriptorProto) -> str:
    """The base64 of a compiled file, as registries keep it."""
    return base64.b64encode(compiled.SerializeToString()).decode()


def _add(made: DescriptorProto, name: str, number: int, type_: str) -> None:
    label, _, type_ = type_.rpartition(" ")
    field = made.field.add(name=name, number=number, label=f"LABEL_{(label or 'optional').upper()}")
    if type_.startswith("enum."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, type_.removeprefix("enum")
    elif type_.startswith("."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, type_
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{type_.upper()}")
    if label == "optional":  # a field with explicit presence, as in "optional int32 a"
        field.proto3_optional, field.oneof_index = True, len(made.oneof_decl)
        made.oneof_decl.add(name=f"_{name}")
