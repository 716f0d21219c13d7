"""Protobuf schemas in the registry: Confluent's client registers them, and sources find them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from connectors.formats.protobuf_decode import ProtobufDecoder
from connectors.formats.protobuf_schema import document
from connectors.kafka.schema_registry.registry import latest_schema, schema_lookup
from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.permitted_registry import PermittedRegistry
from dsms.coordinator.registry.schema_types import unreadable
from dsms.coordinator.registry.state import read_event
from dsms.coordinator.registry.subjects import RegistryError, SchemaRegistry
from dsms.coordinator.results.writer_schemas import writer_schema
from dsms.model.principal import AccessRules, Forbidden, Principal
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving
from tests.support.protobuf_files import as_text, file, map_entry, message

MONEY = file("money.proto", message("Money", {"cents": "int64"}))
ORDER = file(
    "order.proto", message("Order", {"id": "int64", "price": ".shop.Money", "at": ".google.protobuf.Timestamp"}),
    dependency=["money.proto", "google/protobuf/timestamp.proto"],
)  # fmt: skip
POOL = DescriptorPool()
POOL.AddSerializedFile(TIMESTAMP_FILE.serialized_pb)
for _file in (MONEY, ORDER):
    POOL.AddSerializedFile(_file.SerializeToString())
Order: Any = GetMessageClass(POOL.FindMessageTypeByName("shop.Order"))
COLUMNS = pa.schema([pa.field("id", pa.int64()), pa.field("price", pa.struct([pa.field("cents", pa.int64())]))])


@pytest.fixture
def registry() -> SchemaRegistry:
    return SchemaRegistry()


@pytest.fixture
def url(registry: SchemaRegistry) -> Iterator[str]:
    with serving(create_app(FakeService(), registry)) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def record(client: SchemaRegistryClient) -> bytes:
    serialize = ProtobufSerializer(Order, client, {"use.deprecated.format": False})
    order = Order(id=5)
    order.price.cents, order.at.seconds = 250, 7
    value = serialize(order, SerializationContext("orders", MessageField.VALUE))
    assert value is not None
    return value


def test_records_of_the_stock_serializer_are_read(registry: SchemaRegistry, url: str, client: SchemaRegistryClient):
    """Executors look schemas up over HTTP, the coordinator looks them up in its own registry."""
    value = record(client)
    for lookup in (schema_lookup(url), writer_schema(SimpleNamespace(registry=None), registry, None)):
        result = ProtobufDecoder(COLUMNS, lookup).decode([value])
        assert result.frame.rows() == [(5, {"cents": 250})], result.refused
    assert sorted(client.get_subjects()) == ["money.proto", "orders-value"]
    deserialize = ProtobufDeserializer(Order, {"use.deprecated.format": False}, client)
    assert deserialize(value, SerializationContext("orders", MessageField.VALUE)).price.cents == 250


def test_protobuf_answers_to_registry_clients(url: str, client: SchemaRegistryClient):
    record(client)
    latest = client.get_latest_version("orders-value")
    assert latest.schema.schema_type == "PROTOBUF"
    assert latest.schema.references == [SchemaReference("money.proto", "money.proto", 1)]
    assert FileDescriptorProto.FromString(base64.b64decode(latest.schema.schema_str or "")) == ORDER
    assert httpx.get(f"{url}/subjects/money.proto/versions/1/referencedby").json() == [latest.schema_id]
    assert latest_schema(url, "orders-value") is None  # this looks up schemas of results, which are never Protobuf


def test_imported_version_cannot_be_deleted(client: SchemaRegistryClient):
    record(client)
    for delete in (client.delete_subject, lambda subject: client.delete_version(subject, 1)):
        with pytest.raises(
            SchemaRegistryError, match='subject "money.proto" cannot be deleted: schemas refer to it: 2'
        ) as error:
            delete("money.proto")
        assert error.value.error_code == 42206
    client.delete_subject("orders-value")
    assert client.get_subjects() == ["money.proto"]


REFUSED = [
    ("message A {}", "is not the base64 of a compiled file"),
    (as_text(file("a.proto")), "the schema has no message"),
    (as_text(ORDER), 'the schema imports "money.proto", but has no reference to it'),
    (as_text(file("a.proto", message("A", {"b": ".shop.B"}))), "the schema cannot be used"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_invalid_schemas_are_refused(client: SchemaRegistryClient, text: str, why: str):
    with pytest.raises(SchemaRegistryError, match=why) as error:
        client.register_schema("s", Schema(text, "PROTOBUF"))
    assert error.value.error_code == 42201


def test_reference_to_a_missing_subject_is_refused(client: SchemaRegistryClient):
    schema = Schema(as_text(ORDER), "PROTOBUF", [SchemaReference("money.proto", "nowhere", 1)])
    with pytest.raises(SchemaRegistryError, match='subject "nowhere" not found'):
        client.register_schema("s", schema)


def test_events_bring_schemas_back():
    events: list[Any] = []
    first = SchemaRegistry(events.append)
    text = json.dumps(document(as_text(MONEY), []))
    assert first.register("s", text) == first.register("t", text) == 1
    again = SchemaRegistry()
    for event in events:
        again.apply(read_event(json.dumps(event).encode()))
    assert again.state == first.state


def schema(**fields: str) -> str:
    return json.dumps(document(as_text(file("a.proto", message("A", fields), syntax="proto2")), []))


FOLLOWING = [
    ({"a": "int32"}, {"a": "int64"}, ""),
    ({"a": "string"}, {"b": "bytes"}, ""),
    ({"a": "int32"}, {"a": "int32", "b": "string"}, ""),
    ({"a": "int32", "b": "string"}, {"a": "int32"}, ""),
    ({"a": "int32"}, {"a": "string"}, "field 1 of shop.A has type string instead of int32"),
    ({"a": "int32"}, {"a": "sint32"}, "field 1 of shop.A has type sint32 instead of int32"),
    ({"a": "int32"}, {"a": "repeated int32"}, "field 1 of shop.A is repeated in one of them only"),
    ({"a": ".shop.A"}, {"a": ".shop.B"}, "field 1 of shop.A has another message type"),
    (
        {"a": "int32"},
        {"a": "int32", "b": "required int32"},
        "field 2 of shop.A is required, but the writer may omit it",
    ),
    ({"a": "optional int32"}, {"a": "required int32"}, "field 1 of shop.A is required, but the writer may omit it"),
    ({"a": "int32", "b": "required int32"}, {"a": "int32"}, ""),
]


@pytest.mark.parametrize(("old", "new", "why"), FOLLOWING)
def test_which_schemas_read_which_data(old: dict[str, str], new: dict[str, str], why: str):
    assert unreadable(schema(**new), schema(**old)) == ([why] if why else [])


def test_maps_are_read_by_their_keys_and_values():
    """The names of the messages of map entries do not matter. A map may be removed like any field."""

    def mapped(name: str, key: str, value: str) -> str:
        entry = map_entry(f"{name}Entry", key, value)
        made = message("A", {name: f"repeated .shop.A.{name}Entry"}, nested=(entry,))
        return json.dumps(document(as_text(file("a.proto", made)), []))

    old = mapped("m", "string", "int32")
    assert unreadable(mapped("n", "string", "int64"), old) == []
    why = ["field 1 of shop.A field 2 of shop.A.mEntry has type string instead of int32"]
    assert unreadable(mapped("m", "string", "string"), old) == why
    assert unreadable(json.dumps(document(as_text(file("a.proto", message("A", {}))), [])), old) == []


def test_invalid_references_are_refused(registry: SchemaRegistry, client: SchemaRegistryClient, url: str):
    client.register_schema("money.proto", Schema(as_text(MONEY), "PROTOBUF"))
    client.register_schema("avro", Schema('"string"', "AVRO"))
    needing = file("a.proto", message("A", {"price": ".shop.Money"}), dependency=["money.proto"])
    for subject, version, why in (("avro", 1, "not the base64"), ("money.proto", 2, "not found")):
        schema = Schema(as_text(needing), "PROTOBUF", [SchemaReference("money.proto", subject, version)])
        with pytest.raises(SchemaRegistryError, match=why):
            client.register_schema("s", schema)
    reference = {"name": "money.proto", "subject": "money.proto", "version": -1}
    body = {"schema": as_text(needing), "schemaType": "PROTOBUF", "references": [reference]}
    assert httpx.post(f"{url}/subjects/s/versions", json=body).status_code == 422
    client.delete_subject("money.proto")
    body["references"] = [{**reference, "version": 1}]
    answer = httpx.post(f"{url}/subjects/s/versions", json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (404, 40401)


def test_caller_may_not_import_unreadable_subjects():
    registry = SchemaRegistry()
    registry.register("secret-value", json.dumps(document(as_text(MONEY), [])))
    ann = PermittedRegistry(
        registry, Principal("ann", "writer", AccessRules.of(read_topics=["mine"], write_topics=["mine"]))
    )
    reference = {"name": "money.proto", "subject": "secret-value", "version": 1}
    text = json.dumps(document(as_text(ORDER), [reference]))
    for call in (ann.register, ann.check, ann.lookup):
        with pytest.raises(Forbidden):
            call("mine-value", text)
    with pytest.raises(RegistryError, match="not found"):
        ann.lookup("mine-value", '"int"')


def test_a_message_that_goes_or_another_type_of_schema_cannot_follow():
    other = json.dumps(document(as_text(file("a.proto", message("B", {"a": "int32"}))), []))
    assert unreadable(other, schema(a="int32")) == ["message shop.A is missing"]
    assert unreadable('"int"', other) == ["the schemas are of different types"]
