"""The registry's endpoints, called by Confluent's standard client and serializers."""

import json
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from connectors.formats.avro_codec import AvroCodec
from connectors.kafka.schema_registry.registry import Registry
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving

ROW = json.dumps(
    {"type": "record", "name": "row", "fields": [{"name": "room", "type": "string"}, {"name": "t", "type": "long"}]}
)
WIDER = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "room", "type": "string"},
            {"name": "t", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
OTHER = json.dumps({"type": "record", "name": "row", "fields": [{"name": "room", "type": "long"}]})


REFERENCE = {"name": "x", "subject": "s", "version": 1}


@pytest.fixture
def url() -> Iterator[str]:
    with serving(create_app(FakeService(), SchemaRegistry())) as address:
        yield address


@pytest.fixture
def client(url):
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def test_serializers_round_trip(client):
    context = SerializationContext("readings", MessageField.VALUE)
    row = {"room": "kitchen", "t": 31}
    data = AvroSerializer(client, ROW)(row, context)
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    assert AvroDeserializer(client)(data, context) == row
    assert client.get_subjects() == ["readings-value"]


def test_our_codec_and_confluents_read_each_other(client, url):
    context, row = SerializationContext("readings", MessageField.VALUE), {"room": "kitchen", "t": 31}
    data = AvroSerializer(client, ROW)(row, context)
    codec = AvroCodec(Registry(url, ours=False), "readings")
    assert codec.encode(row, key=False) == data and codec.decode(data, key=False) == row


def test_a_newer_reader_of_an_older_record(client):
    context = SerializationContext("readings", MessageField.VALUE)
    data = AvroSerializer(client, ROW)({"room": "kitchen", "t": 31}, context)
    AvroSerializer(client, WIDER)({"room": "hall", "t": 1, "note": "x"}, context)
    assert AvroDeserializer(client, WIDER)(data, context) == {"room": "kitchen", "t": 31, "note": None}
    assert client.get_versions("readings-value") == [1, 2]


def test_serializer_that_uses_the_latest_version(client):
    client.register_schema("readings-value", Schema(ROW, "AVRO"))
    serializer = AvroSerializer(client, conf={"auto.register.schemas": False, "use.latest.version": True})
    context = SerializationContext("readings", MessageField.VALUE)
    assert serializer({"room": "a", "t": 1}, context)[4] == 1


def test_client_verbs(client):
    subject = "a/b value"
    schema_id = client.register_schema(subject, Schema(ROW, "AVRO"))
    assert client.lookup_schema(subject, Schema(ROW, "AVRO")).version == 1
    assert json.loads(client.get_schema(schema_id).schema_str) == json.loads(ROW)
    assert client.get_latest_version(subject).schema_id == schema_id
    assert client.get_version(subject, 1).schema_id == schema_id
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility(subject, "FULL")
    assert client.get_compatibility(subject) == "FULL"
    assert client.test_compatibility(subject, Schema(WIDER, "AVRO"))
    assert not client.test_compatibility(subject, Schema(OTHER, "AVRO"))
    assert [(v.subject, v.version) for v in client.get_schema_versions(schema_id)] == [(subject, 1)]
    assert client.delete_subject(subject) == [1]
    assert client.delete_subject(subject, permanent=True) == [1]
    assert client.get_subjects() == []


def test_incompatible_schema_is_refused(client):
    client.register_schema("s", Schema(ROW, "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("s", Schema(OTHER, "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "room" in refused.value.error_message or "fields" in refused.value.error_message


@pytest.mark.parametrize(
    ("call", "body", "status", "code"),
    [
        ("GET /subjects/x/versions", None, 404, 40401),
        ("GET /subjects/s/versions/9", None, 404, 40402),
        ("GET /subjects/s/versions/zero", None, 422, 42202),
        ("GET /schemas/ids/9", None, 404, 40403),
        ("GET /config/s", None, 404, 40408),
        ("PUT /config", {"compatibility": "SIDEWAYS"}, 422, 42203),
        ("POST /subjects/s", {"schema": '"string"'}, 404, 40403),
        ("POST /subjects/s/versions", {"schema": "{"}, 422, 42201),
        ("POST /subjects/s/versions", {}, 422, 422),
        ("POST /subjects/s/versions", {"schema": '"int"', "references": [{"name": "x"}]}, 422, 422),
        ("POST /subjects/s/versions", {"schema": '"int"', "references": [REFERENCE]}, 422, 42201),
        ("POST /subjects/s/versions", {"schema": "message A {}", "schemaType": "PROTOBUF"}, 422, 42201),
        ("POST /subjects/s/versions", {"schema": '{"type": "protobuf"}'}, 422, 42201),
        ("POST /subjects/s/versions", {"schema": '{"type": "protobuf", "file": 5, "references": 5}'}, 422, 42201),
        ("POST /subjects/s/versions", {"schema": f'{{"type": "int", "n": {"1" * 5000}}}'}, 422, 42201),
        ("POST /subjects/s/versions", {"schema": '"int"', "schemaType": "JSON"}, 422, 42201),
        ("DELETE /subjects/s?permanent=true", None, 404, 40405),
    ],
)
def test_error_codes(url, client, call, body, status, code):
    method, path = call.split()
    client.register_schema("s", Schema('"int"', "AVRO"))
    answer = httpx.request(method, url + path, json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)


def test_plain_texts_and_constants(url, client):
    client.register_schema("s", Schema(' "int" ', "AVRO"))
    assert httpx.get(f"{url}/subjects/s/versions/latest/schema").text == '"int"'
    assert httpx.get(f"{url}/schemas/ids/1/schema").text == '"int"'
    assert httpx.get(f"{url}/schemas/types").json() == ["AVRO", "PROTOBUF"]
    assert httpx.get(f"{url}/schemas/ids/1/subjects").json() == ["s"]
    assert httpx.get(f"{url}/").json() == {}
    assert httpx.get(f"{url}/mode").json() == {"mode": "READWRITE"}
    assert httpx.get(f"{url}/subjects").headers["content-type"] == "application/vnd.schemaregistry.v1+json"


def imported(url: str, subject: str, schema: str, **more: object) -> tuple[int, dict]:
    answer = httpx.post(f"{url}/subjects/{subject}/versions", json={"schema": schema, **more})
    return answer.status_code, answer.json()


def test_a_schema_is_registered_under_the_id_that_records_name(url, client):
    """This needs mode IMPORT, as in Confluent's registry, which is set for a subject or for all."""
    status, error = imported(url, "s-value", ROW, id=9999)
    assert (status, error["error_code"]) == (422, 42205) and "is not in import mode" in error["message"]
    assert httpx.put(f"{url}/mode/s-value", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    assert httpx.get(f"{url}/mode/s-value").json() == {"mode": "IMPORT"}
    assert imported(url, "s-value", ROW, id=9999) == (200, {"id": 9999})
    assert imported(url, "s-value", ROW, id=9999) == (200, {"id": 9999})
    assert imported(url, "s-value", OTHER, id=50, version=7) == (200, {"id": 50}), "compatibility is not asked"
    assert json.loads(client.get_schema(9999).schema_str) == json.loads(ROW)
    assert httpx.get(f"{url}/subjects/s-value/versions").json() == [1, 7]
    for wrong in ({"id": 9999}, {"id": 0}, {"id": 2**31}, {"id": 51, "version": 7}, {}):
        status, error = imported(url, "s-value", WIDER, **wrong)
        assert (status, error["error_code"]) == (422, 42205), wrong
    assert httpx.delete(f"{url}/mode/s-value").json() == {"mode": "IMPORT"}
    status, error = imported(url, "s-value", WIDER, id=52)
    assert (status, error["error_code"]) == (422, 42205)
    assert client.register_schema("t-value", Schema('"int"', "AVRO")) == 10000, "no id is given twice"


def test_modes_of_all_subjects_and_their_errors(url, client):
    assert httpx.get(f"{url}/mode").json() == {"mode": "READWRITE"}
    assert httpx.get(f"{url}/mode/s").json()["error_code"] == 40409
    assert httpx.get(f"{url}/mode/s?defaultToGlobal=true").json() == {"mode": "READWRITE"}
    assert httpx.put(f"{url}/mode", json={"mode": "x"}).json()["error_code"] == 42204
    client.register_schema("s", Schema('"int"', "AVRO"))
    assert httpx.put(f"{url}/mode", json={"mode": "IMPORT"}).json()["error_code"] == 42205
    assert httpx.put(f"{url}/mode?force=true", json={"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    assert imported(url, "u", '"long"', id=7) == (200, {"id": 7})
    assert httpx.put(f"{url}/mode", json={"mode": "readonly"}).json() == {"mode": "READONLY"}
    status, error = imported(url, "s", '"long"')
    assert (status, error["error_code"]) == (422, 42205) and "read-only" in error["message"]
    assert httpx.put(f"{url}/mode", json={"mode": "READWRITE"}).json() == {"mode": "READWRITE"}
    assert imported(url, "v", '"string"') == (200, {"id": 8})
