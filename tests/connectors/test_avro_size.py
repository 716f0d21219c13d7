"""The size of Avro schemas in which each name is replaced by its definition."""

from __future__ import annotations

import json

import pytest

from connectors.formats.avro_size import AvroSize, avro_size
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry
from dsms.model.limits import Limits


def nested(depth: int) -> str:
    """An array of arrays, as text: it is nested too deeply for the writer of the standard library."""
    return '{"type": "array", "items": ' * depth + '"int"' + "}" * depth


def doubled(levels: int) -> dict[str, object]:
    """A record with two fields of a record with two fields …, the second one by its name: about 2^levels types."""
    inner: object = "int"
    for level in range(levels):
        name = f"r{level}"
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"r{level - 1}" if level else "int"}]
        inner = {"type": "record", "name": name, "fields": fields}
    assert isinstance(inner, dict)
    return inner


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        ("int", AvroSize(1, 1)),
        ({"type": "int", "logicalType": "date"}, AvroSize(1, 1)),
        ({"type": {"type": "array", "items": "int"}}, AvroSize(2, 2)),
        (["null", {"type": "map", "values": "string"}], AvroSize(3, 4)),
        (doubled(1), AvroSize(2, 3)),
        (doubled(3), AvroSize(4, 15)),
        (doubled(40), AvroSize(41, 2**41 - 1)),
        ({"type": "record", "name": "list", "fields": [{"name": "next", "type": ["null", "list"]}]}, AvroSize(3, 4)),
    ],
)
def test_sizes(schema: object, size: AvroSize) -> None:
    assert avro_size(schema) == size


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (nested(200), "schema_nesting"),
        (json.dumps(doubled(30)), "schema_types"),
        (json.dumps({"type": "enum", "name": "e", "symbols": [f"s{n}" for n in range(100_000)]}), "schema_length"),
    ],
)
def test_a_registry_refuses_large_schemas_by_the_name_of_the_limit(text: str, limit: str) -> None:
    registry = SchemaRegistry(limits=Limits())
    for call in (registry.register, registry.lookup, registry.check):
        with pytest.raises(RegistryError, match=f'the limit "{limit}" is set by DSMS_LIMITS') as raised:
            call("s-value", text)
        assert raised.value.status == 422


@pytest.mark.parametrize("depth", [5_000, 60_000])
def test_no_schema_overflows_the_stack(depth: int) -> None:
    with pytest.raises(RegistryError) as raised:
        SchemaRegistry(limits=Limits(schema_length=10_000_000)).register("s-value", nested(depth))
    assert raised.value.status == 422
