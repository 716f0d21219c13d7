"""When an Avro schema may follow others under one subject."""

import json
from collections.abc import Iterable
from typing import Literal, get_args

import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import Schema

Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
LEVELS: tuple[Level, ...] = get_args(Level)


def unreadable(reader: str, writer: str) -> list[str]:
    """Why data of the writer's schema cannot be read with the reader's; empty when it can.

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


def incompatibilities(level: Level, candidate: str, previous: Iterable[str]) -> list[str]:
    """Why the candidate may not follow the previous schemas (oldest first) at this level; empty when it may.

    BACKWARD: the candidate reads what was written; FORWARD: the older reads what the candidate writes; FULL: both.
    The plain levels look at the latest schema only, the transitive ones at all.

    >>> incompatibilities("BACKWARD", '"long"', ['"string"', '"int"'])
    []
    >>> len(incompatibilities("BACKWARD_TRANSITIVE", '"long"', ['"string"', '"int"']))
    1
    """
    if level == "NONE":
        return []
    compared = list(previous)
    if not level.endswith("_TRANSITIVE"):
        compared = compared[-1:]
    problems: list[str] = []
    for other in compared:
        if not level.startswith("FORWARD"):
            problems += [f"new schema cannot read old data: {reason}" for reason in unreadable(candidate, other)]
        if not level.startswith("BACKWARD"):
            problems += [f"old schema cannot read new data: {reason}" for reason in unreadable(other, candidate)]
    return problems


def _parse(text: str) -> Schema:
    return avro.schema.parse(json.dumps(_plain(json.loads(text))))


def _plain(node: object) -> object:
    """The schema without logical types: resolution is defined on the underlying types."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if isinstance(node, dict):
        return {
            name: value if name == "default" else _plain(value) for name, value in node.items() if name != "logicalType"
        }
    return node
