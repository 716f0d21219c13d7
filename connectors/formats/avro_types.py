"""A writer's Avro schema as a tree of frozen nodes; names are replaced by the types that they refer to."""

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.formats.connect_names import logical_of, scale_of

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type. If it is in a union with null, `null_branch` is the index of null in that union. `branches` are the types
    of a union, or the element type of an array or a map.
    """

    kind: str
    logical: str = ""
    null_branch: int | None = None
    size: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple["AvroField", ...] = ()
    branches: tuple["AvroType", ...] = ()


@dataclass(frozen=True, slots=True)
class AvroField:
    """A named field of a record."""

    name: str
    type: AvroType


RECURSIVE = AvroType("recursive")


def avro_type(schema: object) -> AvroType:
    """The tree of a schema that was parsed from JSON.

    >>> avro_type(["null", {"type": "long", "logicalType": "timestamp-micros"}])  # doctest: +ELLIPSIS
    AvroType(kind='long', logical='timestamp-micros', null_branch=0, size=0, ...)
    """
    return _node(schema, "", {})


def _node(schema: object, space: str, names: dict[str, AvroType]) -> AvroType:
    if isinstance(schema, list):
        return _union([_node(branch, space, names) for branch in schema])
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return AvroType(schema)
        return names[_full(schema, space)]
    if not isinstance(schema, Mapping):
        raise ValueError(f"not an Avro schema: {schema!r}")
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in _COMPLEX:
        return _annotated(_node(kind, space, names), schema)
    return _annotated(_COMPLEX[kind](schema, space, names), schema)


def _annotated(node: AvroType, schema: Mapping[str, object]) -> AvroType:
    if node.kind in ("union", "recursive"):
        return node
    logical, scale = schema.get("logicalType"), schema.get("scale")
    if known := logical_of(schema.get("connect.name")):
        logical = known
    if scale is None:
        scale = scale_of(schema.get("connect.parameters"))
    if not isinstance(logical, str) or not isinstance(scale, int):
        return node
    if logical == "decimal" and node.kind in ("int", "long"):
        return node  # a logical type that does not fit the type is ignored (Avro, "Logical Types")
    return AvroType(node.kind, logical, node.null_branch, node.size, scale, node.symbols, node.fields, node.branches)


def _union(branches: list[AvroType]) -> AvroType:
    kinds = [branch.kind for branch in branches]
    if "union" in kinds or any(branch.null_branch is not None for branch in branches):
        raise ValueError("a union directly within a union")
    if len(branches) == 2 and kinds.count("null") == 1 and branches[1 - kinds.index("null")].kind in _OPTIONAL:
        null = kinds.index("null")
        some = branches[1 - null]
        return AvroType(some.kind, some.logical, null, some.size, some.scale, some.symbols, some.fields, some.branches)
    return AvroType("union", branches=tuple(branches))


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _name(schema: Mapping[str, object], space: str) -> tuple[str, str]:
    name, own = str(schema["name"]), schema.get("namespace")
    full = _full(name, own if isinstance(own, str) else space)
    return full, full.rpartition(".")[0]


def _record(schema: Mapping[str, object], space: str, names: dict[str, AvroType]) -> AvroType:
    full, space = _name(schema, space)
    names[full] = RECURSIVE
    fields = schema["fields"]
    if not isinstance(fields, list):
        raise ValueError(f'record "{full}" has no list of fields')
    node = AvroType("record", fields=tuple(AvroField(str(f["name"]), _node(f["type"], space, names)) for f in fields))
    names[full] = _annotated(node, schema)
    return names[full]


def _enum(schema: Mapping[str, object], space: str, names: dict[str, AvroType]) -> AvroType:
    symbols = schema["symbols"]
    if not isinstance(symbols, list):
        raise ValueError("an enum needs a list of symbols")
    node = AvroType("enum", symbols=tuple(map(str, symbols)))
    names[_name(schema, space)[0]] = node
    return node


def _fixed(schema: Mapping[str, object], space: str, names: dict[str, AvroType]) -> AvroType:
    node = _annotated(AvroType("fixed", size=int(str(schema["size"]))), schema)
    names[_name(schema, space)[0]] = node
    return node


def _array(schema: Mapping[str, object], space: str, names: dict[str, AvroType]) -> AvroType:
    return AvroType("array", branches=(_node(schema["items"], space, names),))


def _map(schema: Mapping[str, object], space: str, names: dict[str, AvroType]) -> AvroType:
    return AvroType("map", branches=(_node(schema["values"], space, names),))


_COMPLEX = {"record": _record, "error": _record, "enum": _enum, "fixed": _fixed, "array": _array, "map": _map}
_OPTIONAL = (PRIMITIVES - {"null"}) | {"record", "enum", "fixed", "array", "map"}


def unbounded(node: AvroType) -> bool:
    """Whether a type has an array whose elements take no bytes, so that a few bytes can encode any number of elements.

    >>> unbounded(AvroType("array", branches=(AvroType("null"),)))
    True
    """
    inner = (*node.branches, *(field.type for field in node.fields))
    return (node.kind == "array" and _weightless(node.branches[0])) or any(map(unbounded, inner))


def _weightless(node: AvroType) -> bool:
    if node.null_branch is not None:
        return False
    if node.kind in ("record", "fixed"):
        return node.size == 0 and all(_weightless(field.type) for field in node.fields)
    return node.kind == "null"


def recursive(node: AvroType) -> bool:
    """Whether a record of the type may contain a record of the same type, and so have any depth.

    >>> recursive(AvroType("array", branches=(RECURSIVE,)))
    True
    """
    inner = (*node.branches, *(field.type for field in node.fields))
    return node.kind == "recursive" or any(map(recursive, inner))
