"""Answers, refusals and missing answers of the schema registry become data and errors of ours."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from connectors.formats.avro_codec import AvroCodec
from connectors.kafka.schema_registry.registry import Registry as Schemas
from connectors.kafka.schema_registry.registry import place_of, register_schema, schema_lookup
from operators.core.errors import ExternalError, UserError

SCHEMA = {"type": "record", "name": "row", "fields": [{"name": "k", "type": "long"}]}
#: The answers in turn, and the requests: method, path, user, body.
Answers = list[tuple[int, object]]
Asked = list[tuple[str, str, str | None, object]]


class Registry(ThreadingHTTPServer):
    """Gives the prepared answers, and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: Answers = []
        self.asked: Asked = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Registry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        user = self.headers.get("Authorization")
        name = base64.b64decode(user.removeprefix("Basic ")).decode() if user else None
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path, name, json.loads(body) if body else None))
        status, answer = self.server.answers.pop(0)
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_POST = do_GET  # noqa: N815 the name that the library looks for

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_schema_is_asked_for_once(registry: Registry) -> None:
    registry.answers = [(200, {"schema": json.dumps(SCHEMA)})]
    assert [schema_lookup(registry.url)(7) for _ in range(3)] == [SCHEMA] * 3
    assert registry.asked == [("GET", "/schemas/ids/7", None, None)]


PROTOBUF = {"schemaType": "PROTOBUF", "schema": "Cg==", "references": [{"name": "b", "subject": "x/y", "version": 2}]}


def test_a_compiled_schema_comes_with_what_it_imports(registry: Registry) -> None:
    imported = {"schemaType": "PROTOBUF", "schema": "Eg=="}
    registry.answers = [(200, {**PROTOBUF, "schema": "message A {}"}), (200, PROTOBUF), (200, imported)]
    assert schema_lookup(registry.url)(7)["imports"] == {"b": "Eg=="}
    paths = ["/schemas/ids/7", "/schemas/ids/7?format=serialized", "/subjects/x%2Fy/versions/2?format=serialized"]
    assert [path for _, path, _, _ in registry.asked] == paths


STRANGE: list[Answers] = [
    [(200, [])], [(200, {"schema": None})], [(200, {})], [(200, b"<html>")],
    [(200, PROTOBUF), (200, {"schemaType": "PROTOBUF"})],
    [(200, PROTOBUF), (200, {**PROTOBUF, "references": 5})], [(200, PROTOBUF), (200, {**PROTOBUF, "references": [{}]})],
    [(200, PROTOBUF), (200, PROTOBUF), (404, {"message": "gone"})],
    [(200, PROTOBUF), (200, {**PROTOBUF, "references": [{"name": "b", "subject": "x", "version": "../1"}]})],
    [(200, {"schema": "[" * 100_000})],
]  # fmt: skip


@pytest.mark.parametrize("answers", STRANGE, ids=range(len(STRANGE)))
def test_a_registry_that_answers_strangely_is_asked_again_later(registry: Registry, answers: Answers) -> None:
    registry.answers = answers
    with pytest.raises(ExternalError, match="the schema registry"):
        schema_lookup(registry.url)(7)


def test_an_unknown_id_is_asked_for_again(registry: Registry) -> None:
    registry.answers = [(404, {"error_code": 40403, "message": "Schema not found"})] * 2
    for _ in range(2):
        with pytest.raises(LookupError, match="^'?unknown schema id 7'?$"):
            schema_lookup(registry.url)(7)
    assert len(registry.asked) == 2


@pytest.mark.parametrize("answer", [{"error_code": 50001, "message": "disk full"}, b"<html>", b'"text"'])
def test_a_failure_of_the_registry_is_reported(registry: Registry, answer: object) -> None:
    registry.answers = [(500, answer)]
    with pytest.raises(
        ExternalError, match=r"^the schema registry failed: (disk full \()?HTTP status 500\)?$"
    ) as raised:
        schema_lookup(registry.url)(7)
    assert raised.value.retryable


def test_a_registry_that_is_busy_is_asked_again(registry: Registry) -> None:
    registry.answers = [(503, b""), (200, {"schema": json.dumps(SCHEMA)})]
    assert schema_lookup(registry.url)(7) == SCHEMA


def test_a_schema_is_registered_under_its_subject(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSMS_TOKEN", "secret")
    registry.answers = [(200, {"id": 12})]
    assert register_schema(registry.url, "a/b value", SCHEMA) == 12
    body = {"schema": json.dumps(SCHEMA), "schemaType": "AVRO"}
    assert registry.asked == [("POST", "/subjects/a%2Fb%20value/versions", "dsms:secret", body)]


def test_name_and_password_of_the_url_are_given(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSMS_TOKEN", "secret")
    registry.answers = [(200, {"schema": json.dumps(SCHEMA)})]
    schema_lookup(registry.url.replace("://", "://me:mine@"))(7)
    assert registry.asked == [("GET", "/schemas/ids/7", "me:mine", None)]


def test_a_registry_that_a_statement_names_does_not_get_our_token(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSMS_TOKEN", "secret")
    registry.answers = [(200, {"schema": json.dumps(SCHEMA)}), (200, {"id": 1})]
    schema_lookup(registry.url, ours=False)(7)
    register_schema(registry.url, "s", SCHEMA, ours=False)
    assert [user for _, _, user, _ in registry.asked] == [None, None]


def test_a_refused_schema_is_not_tried_again(registry: Registry) -> None:
    registry.answers = [(409, {"error_code": 409, "message": "incompatible"})]
    with pytest.raises(
        ExternalError, match=r'refused the schema of subject "s": incompatible \(HTTP status 409\)$'
    ) as raised:
        register_schema(registry.url, "s", SCHEMA)
    assert not raised.value.retryable


def test_a_registry_that_cannot_be_reached_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ExternalError, match="^cannot reach the schema registry: "):
        schema_lookup(url)(7)
    with pytest.raises(ExternalError, match="^cannot reach the schema registry: "):
        AvroCodec(Schemas(url, ours=False), "t").decode(b"\0\0\0\0\7\0", key=False)


def test_the_latest_schema_of_a_subject_is_found(registry: Registry) -> None:
    text = {"schema": json.dumps(SCHEMA)}
    registry.answers = [(200, {**text, "id": 7}), (404, {}), (200, {**text, "id": 8, "schemaType": "JSON"})]
    schemas = Schemas(registry.url, ours=False)
    assert [schemas.latest("t-value") for _ in range(3)] == [(7, SCHEMA), None, None]
    assert registry.asked[0] == ("GET", "/subjects/t-value/versions/latest", None, None)


def test_a_secret_of_the_url_is_looked_up_where_it_is_used(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSMS_SECRET_P", "a/b@c:d")
    registry.answers = [(200, {"schema": json.dumps(SCHEMA)})]
    schema_lookup(registry.url.replace("://", "://me:${secret:p}@"), ours=False)(7)
    assert registry.asked == [("GET", "/schemas/ids/7", "me:a/b@c:d", None)]
    with pytest.raises(ExternalError, match='secret "q" not found'):
        schema_lookup(registry.url.replace("://", "://me:${secret:q}@"), ours=False)(7)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://host", ("host", 80)),
        ("https://u:p@HOST/x?y#z", ("host", 443)),
        ("host", ("host", 80)),
        ("http://evil.com\\@good.org:x", ("evil.com", 80)),
        ("http://[::1]:8081", ("[::1]", 8081)),
        ("http://good.org:80@evil.com/", ("evil.com", 80)),
        ("http://evil.com#.good.org", ("evil.com", 80)),
        ("http://evil.com?.good.org", ("evil.com", 80)),
        ("http://evil.com/.good.org", ("evil.com", 80)),
    ],
)
def test_the_host_is_the_one_that_is_called(url: str, place: tuple[str, int]) -> None:
    assert place_of(url) == place


@pytest.mark.parametrize("url", ["http://a:b:c", "http://host:port", "host:8081", "file:///etc", "http://"])
def test_a_url_that_cannot_be_read_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="the URL of a registry"):
        place_of(url)
