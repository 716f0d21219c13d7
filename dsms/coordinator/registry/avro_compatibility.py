"""Checks whether data of one Avro schema can be read with another."""

import json

import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import Schema


def unreadable(reader: str, writer: str) -> list[str]:
    """The reasons why data of the writer's schema cannot be read with the reader's schema; empty if it can.

    >>> unreadable('"long"', '"int"')
    []
    >>> unreadable('"int"', '"long"')
    ['/: reader type: int not compatible with writer type: long']
    """
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(_parse(reader), _parse(writer))
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    where = ", ".join(sorted(result.locations))
    return [f"{where}: {message}" for message in sorted(result.messages)]


def _parse(text: str) -> Schema:
    return avro.schema.parse(json.dumps(_plain(json.loads(text))))


def _plain(node: object) -> object:
    """The schema without logical types, as schema resolution is defined on the underlying types."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if isinstance(node, dict):
        return {
            name: value if name == "default" else _plain(value) for name, value in node.items() if name != "logicalType"
        }
    return node
