"""Reduces an Avro schema to its byte layout. Values that fastavro reads with the reduced schema show which branch of a
union was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

_FIELD = "branch"


def physical(schema: object) -> object:
    """The schema without logical types and defaults; it describes the same bytes.

    With the original schema, a value that fastavro reads does not always show its branch: records and maps are both
    dicts, bytes and fixed are both bytes. Therefore each branch except null becomes a record with one field, whose name
    contains the number of the branch. This does not change the encoded bytes. A union of null and one other type does
    not need this and keeps its branches.

    >>> physical({"type": "int", "logicalType": "date"})
    {'type': 'int'}
    >>> physical(["int", "string"])[1]
    {'type': 'record', 'name': '_union_branch_1', 'fields': [{'name': 'branch1', 'type': 'string'}]}
    """
    return _physical(schema, count())


def branch_of(value: object) -> tuple[int, object]:
    """The number and the value of the branch that was written, from a value that fastavro read with a `physical`
    schema.

    >>> branch_of({"branch1": "x"})
    (1, 'x')
    """
    assert isinstance(value, dict)
    ((name, inner),) = value.items()
    return int(name.removeprefix(_FIELD)), inner


def _physical(schema: object, numbers: Iterator[int]) -> object:
    if isinstance(schema, list):
        return _union(schema, numbers)
    if not isinstance(schema, Mapping):
        return schema
    # keys that begin with "__" are fastavro's own
    inner = {key: value for key, value in schema.items() if key != "logicalType" and not key.startswith("__")}
    for key in ("type", "items", "values"):
        if key in inner:
            inner[key] = _physical(inner[key], numbers)
    if isinstance(inner.get("fields"), list):
        inner["fields"] = [_field(field, numbers) for field in inner["fields"]]
    return inner


def _field(field: object, numbers: Iterator[int]) -> object:
    plain = {key: value for key, value in field.items() if key != "default"} if isinstance(field, Mapping) else field
    return _physical(plain, numbers)


def _union(branches: list[object], numbers: Iterator[int]) -> list[object]:
    nulls = [_is_null(branch) for branch in branches]
    inner = [_physical(branch, numbers) for branch in branches]
    if len(branches) == 2 and nulls.count(True) == 1:
        return inner
    return [
        branch if null else _tagged(at, branch, numbers)
        for at, (branch, null) in enumerate(zip(inner, nulls, strict=True))
    ]


def _tagged(at: int, branch: object, numbers: Iterator[int]) -> dict[str, object]:
    """Branch number `at` as a record with one field; `numbers` makes the names of such records distinct."""
    fields = [{"name": f"{_FIELD}{at}", "type": branch}]
    return {"type": "record", "name": f"_union_branch_{next(numbers)}", "fields": fields}


def _is_null(schema: object) -> bool:
    while isinstance(schema, Mapping):
        schema = schema.get("type")
    return schema == "null"
