"""Web pages of other sites: requests that a browser sends for them are refused before they have an effect."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.pages import HostNames, refusal
from dsms.coordinator.registry.subjects import SchemaRegistry
from tests.support.fake_service import FakeService

HOST = "127.0.0.1:8080"
OWN, OTHER = f"http://{HOST}", "https://evil.example"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    names = HostNames.of("dsms.example.org *.svc.cluster.local")
    app = create_app(FakeService(), SchemaRegistry(lambda _: None), hosts=names)
    return TestClient(app, base_url=OWN)


def error(answer: Any) -> str:
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize("media", [None, "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("path", ["/v1/plan", "/v1/tables/t/rows", "/v1/sources/s/records", "/v1/statements"])
def test_a_body_that_any_page_can_send_is_refused(client: TestClient, path: str, media: str | None) -> None:
    headers = {"content-type": media} if media else {}
    answer = client.post(path, content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert "application/json" in answer.json()["error"]["hint"]


@pytest.mark.parametrize("origin", [OTHER, "http://127.0.0.1:3000", "http://localhost:8080", "null", "", "http://["])
@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH", "GET", "OPTIONS"])
def test_a_page_of_another_origin_is_refused(client: TestClient, method: str, origin: str) -> None:
    for path in ("/v1/queries/q", "/subjects/s/versions", "/config", "/console/sign-in"):
        answer = client.request(method, path, headers={"origin": origin, **JSON})
        assert answer.status_code == 403, path
        assert "may not call" in error(answer)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_cross_site_requests_without_an_origin_are_refused(client: TestClient, site: str) -> None:
    image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert client.get("/v1/queries", headers=image).status_code == 403
    framed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert client.get("/v1/queries", headers=framed).status_code == 403
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/console/", headers=link).status_code == 200
    assert client.post("/v1/plan", headers={**link, **JSON}, content=b"{}").status_code == 403


def test_our_own_pages_and_programs_are_served(client: TestClient) -> None:
    ours = {"origin": OWN, "sec-fetch-site": "same-origin"}
    assert client.post("/v1/statements", json={"sql": "SHOW QUERIES"}, headers=ours).status_code == 200
    assert client.post("/v1/statements", json={"sql": "SHOW QUERIES"}).status_code == 200
    assert client.get("/v1/queries", headers={"sec-fetch-site": "none"}).status_code == 200
    assert client.delete("/v1/queries/q").status_code != 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "a.svc", "[", "a:b"])
def test_another_name_than_the_servers_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/v1/queries", headers={"host": host})
    assert answer.status_code == 421
    assert error(answer) == f'"{host}" is not a name of this server'
    assert "--hosts" in answer.json()["error"]["hint"]
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost:8080", "[::1]:8080", "10.0.0.7", "coordinator:80", "dsms.example.org", "a.b.svc.cluster.local."]
)
def test_names_of_the_server_are_served(client: TestClient, host: str) -> None:
    assert client.get("/v1/queries", headers={"host": host}).status_code == 200


def test_a_proxy_may_change_the_host_of_a_page_that_is_named() -> None:
    headers = {"host": "10.1.2.3:8080", "origin": "https://dsms.example.org"}
    assert refusal("POST", headers, HostNames.of("dsms.example.org")) is None
    assert refusal("POST", headers, HostNames()) is not None


def test_a_default_port_may_be_left_out() -> None:
    assert refusal("POST", {"host": "a.svc", "origin": "https://a.svc:443"}, HostNames.of("*.svc")) is None
    assert refusal("POST", {"host": "localhost", "origin": "http://localhost:80"}, HostNames()) is None
    assert refusal("POST", {"host": "localhost", "origin": "http://localhost:81"}, HostNames()) is not None
