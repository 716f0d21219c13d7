"""The size of an Avro schema with its named types expanded, as decoding expands them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class AvroSize(NamedTuple):
    """How deep the types of a schema are nested, and how many types it has."""

    nesting: int
    types: int


_ONE = AvroSize(1, 1)


def avro_size(schema: object) -> AvroSize:
    """The size of a schema that was parsed from JSON. A reference of a record to itself counts as one type.

    >>> avro_size({"type": "array", "items": ["null", "int"]})
    AvroSize(nesting=3, types=4)
    """
    return _size(schema, "", {})


def _size(schema: object, space: str, names: dict[str, AvroSize]) -> AvroSize:
    if isinstance(schema, list):
        return _around([_size(branch, space, names) for branch in schema])
    if isinstance(schema, str):
        return names.get(_full(schema, space), _ONE)
    if not isinstance(schema, Mapping):
        return _ONE
    kind = schema.get("type")
    if not isinstance(kind, str):
        return _size(kind, space, names)
    name, own = schema.get("name"), schema.get("namespace")
    full = _full(str(name), own if isinstance(own, str) else space) if name is not None else ""
    inner = full.rpartition(".")[0] if full else space
    size = _around([_size(part, inner, names) for part in _parts(schema)])
    if full:
        names[full] = size
    return names.get(_full(kind, space), size) if not full else size


def _parts(schema: Mapping[str, object]) -> Iterator[object]:
    yield from (schema[part] for part in ("items", "values") if part in schema)
    fields = schema.get("fields")
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, Mapping):
            yield field.get("type")


def _around(parts: list[AvroSize]) -> AvroSize:
    return AvroSize(1 + max((part.nesting for part in parts), default=0), 1 + sum(part.types for part in parts))


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"
