"""Protobuf schemas as JSON documents, and the descriptors of their message types.

A registry returns a schema as the base64 of its compiled file (a FileDescriptorProto), with the subjects and versions
of the files that it imports. A document contains these and the imported files: {"type": "protobuf", "file": base64,
"references": [{"name", "subject", "version"}], "imports": {name: base64}}. No Avro type is called "protobuf", so such
documents and Avro schemas can be stored together.
"""

from __future__ import annotations

import base64
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError

Document = dict[str, Any]
#: Returns the document of a version of a subject.
VersionOf = Callable[[str, int], object]

TYPE = "protobuf"
#: The most files that one schema may import by reference, directly or indirectly.
MAX_IMPORTS = 200
#: The names of the file that defines confluent.type.Decimal. It is built into registries, so no reference is needed.
DECIMAL_FILES = ("confluent/type/decimal.proto", "confluent/types/decimal.proto")
_KNOWN = re.compile(r"google/(protobuf|type)/(\w+)\.proto", re.ASCII)
#: The name that a schema's own file gets. No imported file can have the same name.
_OWN_FILE = "the schema"
#: The errors that the Protobuf library raises for invalid descriptors.
_BROKEN = (TypeError, ValueError, KeyError, AttributeError, DecodeError, EncodeError)


class NotProtobuf(Exception):
    """A document is not a usable Protobuf schema."""


def document(file: str, references: Sequence[Mapping[str, Any]]) -> Document:
    """The document of a schema from a registry; `with_imports` adds the imported files."""
    named = [{key: reference[key] for key in ("name", "subject", "version")} for reference in references]
    return {"type": TYPE, "file": file, **({"references": named} if named else {})}


def is_protobuf(schema: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a document is a Protobuf schema.

    >>> is_protobuf(document("", [])), is_protobuf({"type": "record"}), is_protobuf("int")
    (True, False, False)
    """
    return isinstance(schema, Mapping) and schema.get("type") == TYPE


def references_of(schema: object) -> list[tuple[str, int]]:
    """The subjects and versions that a Protobuf document refers to; [] for other documents.

    >>> references_of(document("", [{"name": "a.proto", "subject": "a", "version": 2}])), references_of("int")
    ([('a', 2)], [])
    """
    return [(reference["subject"], reference["version"]) for reference in _references(schema)]


def _references(schema: object) -> Sequence[Mapping[str, Any]]:
    return schema.get("references", ()) if is_protobuf(schema) else ()


def with_imports(schema: Mapping[str, Any], version_of: VersionOf) -> Document:
    """The document with the files that it imports, directly or indirectly, at most MAX_IMPORTS.

    If two references have the same name, the one nearer to the schema is used. For a reference to a schema that is not
    Protobuf, the file is None.
    """
    imports: dict[str, str | None] = {}
    waiting = list(_references(schema))
    while waiting and len(imports) < MAX_IMPORTS:
        reference = waiting.pop(0)
        if reference["name"] not in imports:
            found = version_of(reference["subject"], reference["version"])
            imports[reference["name"]] = found.get("file") if is_protobuf(found) else None
            waiting += _references(found)
    return {**schema, "imports": imports}


def parsed_file(text: object) -> FileDescriptorProto:
    """The compiled file from its base64. Raises NotProtobuf if `text` is something else, such as a .proto file."""
    try:
        if isinstance(text, str):
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
            if file.IsInitialized():
                return file
    except (ValueError, DecodeError):
        pass  # NotProtobuf is raised below
    raise NotProtobuf("the schema is not the base64 of a compiled file (a FileDescriptorProto)")


class ProtobufSchema:
    """The message types of a schema. Raises NotProtobuf if the schema is invalid or has no message type."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._file = parsed_file(schema.get("file"))
        self._file.name = _OWN_FILE
        try:
            self._pool = _pool(self._file, schema.get("imports", {}))
        except _BROKEN as error:
            raise NotProtobuf(f"the schema cannot be used: {error}") from error
        if not self._file.message_type:
            raise NotProtobuf("the schema has no message")

    def message(self, path: Sequence[int]) -> Descriptor:
        """The message type at a path. The path has the index of a type in the file, then of one nested in that type,
        and so on. Raises NotProtobuf if the path names no type.
        """
        names, messages = [self._file.package] if self._file.package else [], self._file.message_type
        for index in path:
            if not 0 <= index < len(messages) or messages[index].options.map_entry:
                raise NotProtobuf(f"the schema has no message at {list(path)}")
            names, messages = [*names, messages[index].name], messages[index].nested_type
        if not path:
            raise NotProtobuf("the path of a message is empty")
        found: Descriptor = self._pool.FindMessageTypeByName(".".join(names))
        return found


def _pool(file: FileDescriptorProto, imports: Mapping[str, str | None]) -> DescriptorPool:
    """A pool of the file and its imports; each file is added after the files that it imports."""
    pool, order, seen = DescriptorPool(), [file], {file.name}
    for importing in order:  # grows during the iteration
        new = [name for name in importing.dependency if name not in seen]
        seen.update(new)
        order += [_imported(name, imports) for name in new]
    for proto in _imports_first(order):
        pool.AddSerializedFile(proto.SerializeToString())
    return pool


def _imports_first(files: Sequence[FileDescriptorProto]) -> Iterator[FileDescriptorProto]:
    """The files in an order in which each follows its imports; files that import each other in a cycle come last."""
    done: set[str] = set()
    waiting = list(files)
    while ready := [file for file in waiting if done.issuperset(file.dependency)]:
        yield from ready
        done.update(file.name for file in ready)
        waiting = [file for file in waiting if file.name not in done]
    yield from waiting


def _imported(name: str, imports: Mapping[str, str | None]) -> FileDescriptorProto:
    """The imported file of this name: a well-known file, or otherwise the file of a reference."""
    known = _decimal_file(name) if name in DECIMAL_FILES else _known(name)
    if known is not None:
        return known
    if name not in imports:
        beyond_limit = f", or it is beyond the limit of {MAX_IMPORTS} files" if len(imports) == MAX_IMPORTS else ""
        raise NotProtobuf(f'the schema imports "{name}", but has no reference to it{beyond_limit}')
    try:
        file = parsed_file(imports[name])
    except NotProtobuf as error:
        raise NotProtobuf(f'the schema imports "{name}", which cannot be used: {error}') from error
    file.name = name
    return file


def _known(name: str) -> FileDescriptorProto | None:
    """A file that comes with Protobuf or with Google's common types; None for any other."""
    if name == "confluent/meta.proto":  # it defines only options, which do not affect values
        return FileDescriptorProto(name=name, package="confluent")
    match, file = _KNOWN.fullmatch(name), FileDescriptorProto()
    if match is None:
        return None
    try:
        importlib.import_module(f"google.{match[1]}.{match[2]}_pb2").DESCRIPTOR.CopyToProto(file)
    except ModuleNotFoundError:
        return None
    return file


def _decimal_file(name: str) -> FileDescriptorProto:
    file = FileDescriptorProto(name=name, package="confluent.type", syntax="proto3")
    message = file.message_type.add(name="Decimal")
    kinds = (FieldDescriptorProto.TYPE_BYTES, FieldDescriptorProto.TYPE_UINT32, FieldDescriptorProto.TYPE_INT32)
    for number, (field, kind) in enumerate(zip(("value", "precision", "scale"), kinds, strict=True), 1):
        message.field.add(name=field, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return file
