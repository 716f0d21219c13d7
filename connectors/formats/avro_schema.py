"""The Avro schema that this system registers when it writes declared columns."""

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from operators.core.errors import UserError
from operators.expressions.types import TYPES

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_SCALARS: Mapping[pa.DataType, object] = {type_.arrow: type_.avro for type_ in TYPES}


def avro_schema(schema: pa.Schema, name: str) -> dict[str, object]:
    """The record schema of a topic's values; a nullable column is a union with null and defaults to null.

    A nested record has the name of its column, in the namespace of the enclosing records, so every full name is unique.
    Raises UserError if Avro does not allow a name: under another name, readers would no longer find the column.

    >>> avro_schema(pa.schema([pa.field("a", pa.int64(), nullable=False)]), "Bid")
    {'type': 'record', 'name': 'Bid', 'fields': [{'name': 'a', 'type': 'long'}]}
    """
    space, _, own = name.rpartition(".")
    return _record(list(schema), _checked(own), ".".join(map(_checked, space.split("."))) if space else "")


def _record(fields: list["pa.Field[Any]"], name: str, space: str) -> dict[str, object]:
    named = {"type": "record", "name": name, **({"namespace": space} if space else {})}
    path = f"{space}.{name}" if space else name
    return {**named, "fields": [_field(field, path) for field in fields]}


def _field(field: "pa.Field[Any]", path: str) -> dict[str, object]:
    default = {"default": None} if field.nullable else {}
    name = _checked(field.name)
    return {"name": name, "type": _type(field, name, path), **default}


def _type(field: "pa.Field[Any]", name: str, path: str) -> object:
    inner = _non_null(field.type, name, path)
    return ["null", inner] if field.nullable else inner


def _non_null(declared: pa.DataType, name: str, path: str) -> object:
    if pa.types.is_decimal(declared):
        return {"type": "bytes", "logicalType": "decimal", "precision": declared.precision, "scale": declared.scale}
    if pa.types.is_list(declared):
        return {"type": "array", "items": _type(declared.value_field, name, path)}
    if pa.types.is_struct(declared):
        return _record(list(declared), name, path)
    return _SCALARS[declared]


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "letters, digits and _ only, not starting with a digit; rename it with AS, or use FORMAT JSON"
        raise UserError(f'"{name}" is not a valid Avro name', hint=hint)
    return name
