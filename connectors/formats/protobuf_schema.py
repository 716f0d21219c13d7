"""Schemas of Protobuf as documents, and the classes of their messages.

A registry gives a schema as the base64 of its compiled file (a FileDescriptorProto), and names the subjects and
versions of the files that it imports. A document holds all of it: {"type": "protobuf", "file": base64, "references":
[{"name", "subject", "version"}], "imports": {name: base64}}. No type of Avro is called "protobuf", so documents of both
can be kept beside each other.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

Document = dict[str, Any]
#: The document of a version of a subject.
VersionOf = Callable[[str, int], Mapping[str, Any]]

TYPE = "protobuf"
#: Files by reference that one schema may import, directly or not.
MOST_IMPORTS = 200
_KNOWN = re.compile(r"google/(protobuf|type)/(\w+)\.proto")
_DECIMAL_FILES = ("confluent/type/decimal.proto", "confluent/types/decimal.proto")


class NotProtobuf(ValueError):
    """A document that is no usable schema of Protobuf."""


def document(file: str, references: Sequence[Mapping[str, Any]]) -> Document:
    """The document of a schema as a registry gives it, yet without its imports."""
    named = [{key: reference[key] for key in ("name", "subject", "version")} for reference in references]
    return {"type": TYPE, "file": file, **({"references": named} if named else {})}


def is_protobuf(schema: object) -> bool:
    """Whether a document is one of Protobuf.

    >>> is_protobuf(document("", [])), is_protobuf({"type": "record"}), is_protobuf("int")
    (True, False, False)
    """
    return isinstance(schema, Mapping) and schema.get("type") == TYPE


def references_of(schema: object) -> list[tuple[str, int]]:
    """The subjects and versions to which a document refers; none but those of Protobuf do.

    >>> references_of(document("", [{"name": "a.proto", "subject": "a", "version": 2}])), references_of("int")
    ([('a', 2)], [])
    """
    references = schema.get("references", ()) if isinstance(schema, Mapping) and is_protobuf(schema) else ()
    return [(reference["subject"], reference["version"]) for reference in references]


def with_imports(schema: Mapping[str, Any], version_of: VersionOf) -> Document:
    """The document with the files that it imports, directly or not, and no more than MOST_IMPORTS."""
    imports: dict[str, str] = {}
    waiting = list(schema.get("references", ()))
    while waiting and len(imports) < MOST_IMPORTS:
        reference = waiting.pop()
        if reference["name"] not in imports:
            found = version_of(reference["subject"], reference["version"])
            imports[reference["name"]] = found.get("file", "")
            waiting += found.get("references", ())
    return {**schema, "imports": imports}


def parsed_file(text: str) -> FileDescriptorProto:
    """The compiled file in its base64. Raises NotProtobuf for what is none, such as the text of a .proto file."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise NotProtobuf("the schema is not the base64 of a compiled file (a FileDescriptorProto)") from error


def descriptor(schema: Mapping[str, Any], path: Sequence[int]) -> Descriptor:
    """The message at a path: the index among the messages of the file, then among those within that one, and so on.
    Raises NotProtobuf where there is none, or where the schema is broken."""
    file = parsed_file(schema["file"])
    names, messages = [file.package] if file.package else [], file.message_type
    for index in path:
        if not 0 <= index < len(messages):
            raise NotProtobuf(f"the schema has no message at {list(path)}")
        names, messages = [*names, messages[index].name], messages[index].nested_type
    found: Descriptor = _pool(file, schema.get("imports", {})).FindMessageTypeByName(".".join(names))
    return found


def check(schema: Mapping[str, Any]) -> None:
    """Raises NotProtobuf for a document whose messages cannot be read."""
    file = parsed_file(schema["file"])
    if not file.message_type:
        raise NotProtobuf("the schema has no message")
    _pool(file, schema.get("imports", {}))


def _pool(file: FileDescriptorProto, imports: Mapping[str, str]) -> DescriptorPool:
    """The file and what it imports, each behind its own imports."""
    file.name = file.name or "record.proto"
    pool, order, seen = DescriptorPool(), [file], {file.name}
    for importing in order:  # grows as it is walked
        new = [name for name in importing.dependency if name not in seen]
        seen.update(new)
        order += [_imported(name, imports) for name in new]
    try:
        for proto in _imports_first(order):
            pool.AddSerializedFile(proto.SerializeToString())
    except TypeError as error:
        raise NotProtobuf(f"the schema cannot be used: {error}") from error
    return pool


def _imports_first(files: Sequence[FileDescriptorProto]) -> list[FileDescriptorProto]:
    """The files in an order in which each follows those that it imports; files in a circle stay last, as they are."""
    done: dict[str, FileDescriptorProto] = {}
    waiting = list(files)
    while ready := [file for file in waiting if all(name in done for name in file.dependency)]:
        done |= {file.name: file for file in ready}
        waiting = [file for file in waiting if file.name not in done]
    return [*done.values(), *waiting]


def _imported(name: str, imports: Mapping[str, str]) -> FileDescriptorProto:
    if name in imports:
        file = parsed_file(imports[name])
        file.name = name
        return file
    if name in _DECIMAL_FILES:
        return _decimal_file(name)
    if name == "confluent/meta.proto":  # of options only, which say nothing about values
        return FileDescriptorProto(name=name, package="confluent")
    return _known(name)


def _known(name: str) -> FileDescriptorProto:
    """A file that comes with Protobuf, or with the types that its users share."""
    match = _KNOWN.fullmatch(name)
    file = FileDescriptorProto()
    try:
        if match is None:
            raise ModuleNotFoundError
        importlib.import_module(f"google.{match[1]}.{match[2]}_pb2").DESCRIPTOR.CopyToProto(file)
    except ModuleNotFoundError:
        raise NotProtobuf(f'the schema imports "{name}", to which it has no reference') from None
    return file


def _decimal_file(name: str) -> FileDescriptorProto:
    """The file of confluent.type.Decimal, which registries know by themselves."""
    file = FileDescriptorProto(name=name, package="confluent.type", syntax="proto3")
    message = file.message_type.add(name="Decimal")
    kinds = (FieldDescriptorProto.TYPE_BYTES, FieldDescriptorProto.TYPE_UINT32, FieldDescriptorProto.TYPE_INT32)
    for number, (field, kind) in enumerate(zip(("value", "precision", "scale"), kinds, strict=True), 1):
        message.field.add(name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return file
