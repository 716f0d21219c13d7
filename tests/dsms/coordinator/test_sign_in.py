"""Signing in to the console with an issuer: codes are exchanged for tokens that the coordinator accepts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.__main__ import read_access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.oidc.issuers import read_issuers
from dsms.coordinator.registry.subjects import SchemaRegistry
from operators.core.errors import ConfigError
from tests.support.fake_service import FakeService
from tests.support.identity_provider import IdentityProvider

BACK, VERIFIER = "http://testserver/console/", "v" * 43


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    yield made
    made.close()


@pytest.fixture
def client(provider: IdentityProvider, tmp_path: Path) -> Iterator[TestClient]:
    access = read_access(None, provider.settings(tmp_path / "oidc.toml"))
    with TestClient(create_app(FakeService(), SchemaRegistry(lambda _: None), access)) as made:
        yield made


def code_of(provider: IdentityProvider, verifier: str = VERIFIER) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "tenant": "a", "client_id": "console", "scope": "openid", "response_type": "code", "state": "s",
        "code_challenge_method": "S256", "code_challenge": challenge, "redirect_uri": BACK,
    }  # fmt: skip
    return parse_qs(urlsplit(provider.authorized(asked)).query)["code"][0]


def test_sign_in_returns_a_valid_token(client: TestClient, provider: IdentityProvider) -> None:
    (offer,) = client.get("/console/sign-in").json()
    assert offer == {
        "issuer": provider.url, "client_id": "console", "scope": "openid",
        "authorization_url": f"{provider.url}/authorize?tenant=a",
    }  # fmt: skip
    given = {"issuer": provider.url, "code": code_of(provider), "verifier": VERIFIER, "redirect_uri": BACK}
    answer = client.post("/console/sign-in", json=given)
    assert answer.headers["cache-control"] == "no-store"
    bearer = {"Authorization": f"Bearer {answer.json()['token']}"}
    assert client.get("/v1/queries").status_code == 401
    assert client.get("/v1/queries", headers=bearer).status_code == 200
    again = client.post("/console/sign-in", json=given)
    assert (again.status_code, again.json()["error"]["message"]) == (
        400, "the issuer refuses to sign in: this code does not count",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"verifier": "w" * 43}, 400, "this code does not count"),
        ({"redirect_uri": "http://elsewhere/"}, 400, "this code does not count"),
        ({"issuer": "https://other"}, 400, 'signing in at issuer "https://other" is not configured'),
        ({"code": 7}, 400, "the sign-in request is invalid"),
    ],
)
def test_invalid_sign_in_requests_get_no_token(
    client: TestClient, provider: IdentityProvider, change: dict[str, object], status: int, said: str
) -> None:
    given = {"issuer": provider.url, "code": code_of(provider), "verifier": VERIFIER, "redirect_uri": BACK, **change}
    answer = client.post("/console/sign-in", json=given)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]
    assert "token" not in answer.json()


def test_unavailable_issuer_is_reported(client: TestClient, provider: IdentityProvider) -> None:
    given = {"issuer": provider.url, "code": code_of(provider), "verifier": VERIFIER, "redirect_uri": BACK}
    provider.close()
    answer = client.post("/console/sign-in", json=given)
    assert answer.status_code == 503
    assert "cannot reach the issuer" in answer.json()["error"]["message"]


def test_without_issuers_there_is_no_sign_in() -> None:
    client = TestClient(create_app(FakeService(), SchemaRegistry(lambda _: None)))
    assert client.get("/console/sign-in").json() == []
    assert client.post("/console/sign-in", json={}).status_code == 400


def test_tokens_are_asked_for_over_https(provider: IdentityProvider, tmp_path: Path) -> None:
    file = provider.settings(tmp_path / "oidc.toml")
    file.write_text(file.read_text().replace(f'token_url = "{provider.url}', 'token_url = "http://issuer.example'))
    with pytest.raises(ConfigError, match="token_url .* must begin with https"):
        read_issuers(file)
