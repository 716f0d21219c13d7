"""API tokens: calls without a token are refused, and each role permits its calls and no others."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from dsms.cli.main import app as cli
from dsms.coordinator.http.access import Access, needs, read_tokens
from dsms.coordinator.http.api import ROUTERS, create_app, routes_of
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.guard import RouteRoles
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.statements.statement_runner import permitted
from dsms.model.catalog import Catalog
from dsms.model.principal import Forbidden
from dsms.model.roles import ROLES, Role
from dsms.model.tokens import new_token
from dsms.statements.registry import parse
from operators.core.errors import ConfigError, InternalError
from tests.support.fake_service import FakeService

SECRETS = {role: new_token(role, role) for role in ROLES}
ACCESS = Access(tuple(kept for _, kept in SECRETS.values()))
READING = ["SELECT 1", "SHOW QUERIES", "EXPLAIN SELECT STREAMED a FROM s", "DESCRIBE s"]
WRITING = ["DROP QUERY q", "CREATE QUERY q AS SELECT STREAMED a FROM s", "INSERT INTO t VALUES (1)", "DELETE FROM t"]
OURS = ["COPY t FROM '/etc/passwd'"]


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(FakeService(), SchemaRegistry(lambda _: None), ACCESS))


def with_role(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[role][0]}"}


def every_call(client: TestClient) -> list[tuple[str, str]]:
    paths = client.get("/openapi.json", headers=with_role("reader")).json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer no"}, {"Authorization": "Basic !"}])
def test_without_a_token_nothing_is_readable(client: TestClient, header: dict[str, str]) -> None:
    calls = [*every_call(client), ("GET", "/openapi.json"), ("GET", "/docs"), ("GET", "/"), ("GET", "/nothing")]
    assert len(calls) > 30
    for method, path in calls:
        answer = client.request(method, path, headers=header)
        assert (answer.status_code in (200, 503)) == (path in ("/healthz", "/readyz")), (method, path)
        if path not in ("/healthz", "/readyz"):
            assert answer.status_code == 401
            assert answer.json()["error"]["kind"] == "unauthorized"


def test_a_token_may_be_the_password_of_a_schema_registry_client(client: TestClient) -> None:
    basic = base64.b64encode(f"any:{SECRETS['reader'][0]}".encode()).decode()
    assert client.get("/subjects", headers={"Authorization": f"Basic {basic}"}).status_code == 200


@pytest.mark.parametrize(
    ("header", "message", "challenge"),
    [
        ({}, "a token is needed", 'Bearer realm="dsms"'),
        ({"Authorization": "Bearer wrong"}, "does not know this token", 'Bearer realm="dsms", error="invalid_token"'),
    ],
)
def test_a_wrong_token_is_told_from_a_missing_one(
    client: TestClient, header: dict[str, str], message: str, challenge: str
) -> None:
    answer = client.get("/v1/queries", headers=header)
    assert message in answer.json()["error"]["message"]
    assert answer.headers["WWW-Authenticate"] == challenge


@pytest.mark.parametrize(
    ("method", "path", "least"),
    [
        ("GET", "/v1/queries", "reader"),
        ("GET", "/subjects", "reader"),
        ("DELETE", "/v1/queries/q", "writer"),
        ("POST", "/v1/tables/t/rows", "writer"),
        ("POST", "/subjects/s/versions", "writer"),
        ("POST", "/subjects/s", "reader"),
        ("DELETE", "/subjects/s", "administrator"),
        ("PUT", "/config", "administrator"),
        ("PUT", "/config/s", "administrator"),
    ],
)
def test_a_call_needs_its_role(client: TestClient, method: str, path: str, least: Role) -> None:
    for role in ROLES:
        refused = client.request(method, path, headers=with_role(role)).status_code == 403
        assert refused == (ROLES.index(role) < ROLES.index(least)), role


#: Every route that does not need the role of its method: reader for GET, writer for the others.
DECLARED = {
    ("POST", "/v1/statements"): "reader",
    ("PATCH", "/v1/control/executors/{id}"): "administrator", ("POST", "/v1/checkpoints"): "administrator",
    ("PUT", "/config"): "administrator", ("DELETE", "/config"): "administrator",
    ("PUT", "/config/{subject}"): "administrator", ("DELETE", "/config/{subject}"): "administrator",
    ("POST", "/compatibility/subjects/{subject}/versions"): "reader",
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): "reader",
    ("POST", "/subjects/{subject}"): "reader", ("DELETE", "/subjects/{subject}"): "administrator",
    ("DELETE", "/subjects/{subject}/versions/{version}"): "administrator",
    ("PUT", "/mode"): "administrator", ("PUT", "/mode/{subject}"): "administrator",
    ("DELETE", "/mode/{subject}"): "administrator", ("GET", "/v1/topics/{topic}/publishing"): "writer",
}  # fmt: skip


def test_each_route_needs_the_role_of_its_method_or_the_one_it_declares(client: TestClient) -> None:
    calls = every_call(client)
    assert set(calls) >= DECLARED.keys()
    backend: Any = Backend(FakeService(), SchemaRegistry(lambda _: None), None, None)
    roles = RouteRoles(routes_of(router(backend) for router in ROUTERS))
    needed = {call: roles.needed({"type": "http", "method": call[0], "path": call[1]}) for call in calls}
    assert needed == {call: DECLARED.get(call, "reader" if call[0] == "GET" else "writer") for call in calls}


def test_declared_role_applies_only_to_its_route() -> None:
    router = APIRouter()

    @router.get("/secrets/{name}")
    @needs("administrator")
    def secret(name: str) -> str:
        return name

    @router.get("/{anything:path}")
    def other(anything: str) -> str:
        return anything

    roles = RouteRoles(routes_of([router]))
    asked = [("GET", "/secrets/a"), ("GET", "/secrets/a/b"), ("GET", "/open"), ("POST", "/secrets/a")]
    needed = [roles.needed({"type": "http", "method": method, "path": path}) for method, path in asked]
    assert needed == ["administrator", "reader", "reader", "writer"]
    outer = APIRouter()
    outer.include_router(router)
    with pytest.raises(InternalError, match="plain routes"):
        routes_of([outer])


@pytest.mark.parametrize(("statements", "least"), [(READING, "reader"), (WRITING, "writer"), (OURS, "administrator")])
def test_a_statement_needs_its_role(statements: list[str], least: Role) -> None:
    for statement in statements:
        for role in ROLES[ROLES.index(least) :]:
            permitted(parse(f"{statement}; SHOW QUERIES"), Catalog(), role)
        for role in ROLES[: ROLES.index(least)]:
            with pytest.raises(Forbidden, match=f"statement 2 needs the role {least}, the token has {role}"):
                permitted(parse(f"SHOW QUERIES; {statement}"), Catalog(), role)


def test_the_command_makes_what_the_coordinator_reads(tmp_path) -> None:
    done = CliRunner().invoke(cli, ["token", "ann", "--role", "writer"])
    file = tmp_path / "tokens.toml"
    file.write_text(done.stdout)
    secret = done.stderr.split("shown only once): ")[1].strip()
    principal = read_tokens(file).principal_of(secret)
    assert principal is not None and (principal.name, principal.role, principal.rules) == ("ann", "writer", None)
    assert secret not in done.stdout


def test_the_command_takes_patterns_of_names(tmp_path) -> None:
    command = ["token", "ann", "--read", "orders*", "--read", "rooms", "--write-topics", "dsms.ann_*"]
    file = tmp_path / "tokens.toml"
    file.write_text(CliRunner().invoke(cli, command).stdout)
    (kept,) = read_tokens(file).tokens
    assert (kept.read, kept.write, kept.write_topics) == (("orders*", "rooms"), None, ("dsms.ann_*",))
    assert not kept.principal.may_read("secrets") and kept.principal.may_read("Orders7")
    wrong = CliRunner().invoke(cli, ["token", "ann", "--read", "*a"])
    assert wrong.exit_code != 0 and "sha256" not in wrong.stdout


TOKEN = "[[token]]\nname = 'a'\nrole = 'reader'\nsha256 = ''\n"


@pytest.mark.parametrize(
    "text",
    [
        "token = 3",
        "[[token]]\nname = 'a'",
        TOKEN.replace("reader", "king"),
        f"{TOKEN}read = ['a*b']",
        TOKEN * 2,
        "[x]",
        "=",
    ],
)
def test_a_wrong_file_of_tokens_is_refused(tmp_path, text: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"tokens.toml|is not a pattern|two tokens are named"):
        read_tokens(file)


@pytest.mark.parametrize("begin", ["REGISTER SOURCE s (a INT) FROM t", "CREATE STREAM s (a INT)"])
def test_only_administrators_name_secrets(begin: str) -> None:
    """A statement with a secret determines where the secret is sent."""
    permitted(parse(f"{begin} REGISTRY 'http://me@host'"), Catalog(), "writer")
    naming = parse(f"{begin} REGISTRY 'http://me:${{secret:p}}@host'")
    permitted(naming, Catalog(), "administrator")
    with pytest.raises(Forbidden, match="administrator"):
        permitted(naming, Catalog(), "writer")
