"""The types of schemas that the registry accepts. It keeps each schema as a JSON document: an Avro schema as it is, a
Protobuf schema with its file and its references (`connectors.formats.protobuf_schema`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import fastavro
import msgspec
from avro.errors import AvroException
from fastavro.schema import SchemaParseException, UnknownType

from connectors.formats import protobuf_schema
from connectors.formats.avro_size import avro_size
from connectors.formats.protobuf_schema import NotProtobuf, ProtobufSchema, VersionOf
from dsms.coordinator.registry import avro_compatibility, protobuf_compatibility
from dsms.coordinator.registry.compatibility import Unreadable
from dsms.model.limits import SETTING, Limits
from operators.core.errors import UserError

_COMPILED = "send it compiled, as Confluent's clients for Python do"


class InvalidSchema(UserError):
    """A schema that is not valid for its type."""


@dataclass(frozen=True)
class SchemaType:
    """A type of schemas. `document` builds a document from the text and the references that a client sends; `answer`
    builds the answer that clients get for a document. `check` raises InvalidSchema for an invalid
    document; its last argument finds the schemas to which the document refers. `unreadable` compares the texts of two
    documents."""

    document: Callable[[str, Sequence[Mapping[str, Any]]], str]
    answer: Callable[[str], dict[str, Any]]
    check: Callable[[Any, Limits, VersionOf], None]
    unreadable: Unreadable


def _avro_document(text: str, references: Sequence[Mapping[str, Any]]) -> str:
    if references:
        raise InvalidSchema("schema references are not supported in Avro", hint="write out the named types")
    return text


def _check_avro(document: Any, limits: Limits, _: VersionOf) -> None:
    size = avro_size(document)
    limits.check("schema_nesting", size.nesting, "the types of the schema are nested {} levels deep")
    limits.check("schema_types", size.types, "with its names written out the schema has {} types")
    text = json.dumps(document)
    try:
        fastavro.parse_schema(document)
        avro_compatibility.unreadable(text, text)
    except (ValueError, TypeError, KeyError, UnknownType, SchemaParseException, AvroException) as error:
        raise InvalidSchema(f"schema is not valid Avro: {error}") from error


def _protobuf_document(text: str, references: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(protobuf_schema.document(text, references))


def _protobuf_answer(text: str) -> dict[str, Any]:
    document = json.loads(text)
    references = {"references": document["references"]} if "references" in document else {}
    return {"schema": document["file"], "schemaType": "PROTOBUF", **references}


def _check_protobuf(document: Any, _: Limits, version_of: VersionOf) -> None:
    try:
        msgspec.convert(document, _Document)
        ProtobufSchema(protobuf_schema.with_imports(document, version_of))
    except (NotProtobuf, msgspec.ValidationError) as error:
        raise InvalidSchema(f"schema is not valid Protobuf: {error}", hint=_COMPILED) from error


def _protobuf_unreadable(reader: str, writer: str) -> list[str]:
    return protobuf_compatibility.unreadable(json.loads(reader), json.loads(writer))


class _Reference(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    subject: str
    version: Annotated[int, msgspec.Meta(ge=1)]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    file: str
    references: list[_Reference] = []


#: The types by the names that clients use, the default first.
SCHEMA_TYPES: dict[str, SchemaType] = {
    "AVRO": SchemaType(_avro_document, lambda text: {"schema": text}, _check_avro, avro_compatibility.unreadable),
    "PROTOBUF": SchemaType(_protobuf_document, _protobuf_answer, _check_protobuf, _protobuf_unreadable),
}


def type_of(text: str) -> SchemaType:
    """The type of a document."""
    return _type_of(json.loads(text))


def _type_of(document: object) -> SchemaType:
    return SCHEMA_TYPES["PROTOBUF" if protobuf_schema.is_protobuf(document) else "AVRO"]


def referred_subjects(text: str) -> list[str]:
    """The subjects to which a document refers; none if the text is not a document.

    >>> referred_subjects('{"type": "protobuf", "references": [{"subject": "a"}]}'), referred_subjects("{")
    (['a'], [])
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return []
    references = document.get("references") if protobuf_schema.is_protobuf(document) else ()
    found = [reference.get("subject") for reference in references or () if isinstance(reference, dict)]
    return [subject for subject in found if isinstance(subject, str)]


def unreadable(reader: str, writer: str) -> list[str]:
    """The reasons why data of the writer's schema cannot be read with the reader's schema; empty if it can.

    >>> unreadable('{"type": "protobuf", "file": ""}', '"int"')
    ['the schemas are of different types']
    """
    kind = type_of(reader)
    return kind.unreadable(reader, writer) if kind is type_of(writer) else ["the schemas are of different types"]


def checked(text: str, limits: Limits, version_of: VersionOf) -> str:
    """The compact text of a schema. Raises InvalidSchema or another UserError if it is not valid. `version_of` returns
    the documents to which the schema refers."""
    limits.check("schema_length", len(text), "the schema has {} characters")
    try:
        document = _parsed(text)
        _type_of(document).check(document, limits, version_of)
    except RecursionError:
        hint = f'the limit "schema_nesting" is set by {SETTING}'
        raise InvalidSchema("the schema is nested too deeply", hint=hint) from None
    return json.dumps(document, separators=(",", ":"))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        hint = "send an Avro schema as JSON, and a Protobuf schema compiled, with the schemaType PROTOBUF"
        raise InvalidSchema(f"the schema cannot be read as JSON: {error}", hint=hint) from error
