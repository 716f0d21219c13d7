"""The files of the web console: all exist, need no token, and request nothing from other servers."""

from __future__ import annotations

import json
import re

import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.console.assets import START, assets
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.model.tokens import new_token
from tests.support.fake_service import FakeService

#: References in a file to other files of the console.
_NAMES = re.compile(r'from "\./([^"]+)"|src="([^"]+)"|rel="stylesheet" href="([^"]+)"')


@pytest.fixture(scope="module")
def client() -> TestClient:
    _, kept = new_token("ann", "reader")
    return TestClient(create_app(FakeService(), SchemaRegistry(lambda _: None), Access((kept,))))


def test_console_needs_no_token_and_data_does(client: TestClient) -> None:
    answer = client.get("/console", follow_redirects=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.url.path == "/console/"
    assert client.get("/v1/queries").status_code == 401
    assert client.get("/consoles").status_code == 401


@pytest.mark.parametrize("name", sorted(assets()))
def test_every_file_is_served_as_what_it_is(client: TestClient, name: str) -> None:
    answer = client.get(f"/console/{name}")
    kinds = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
    assert answer.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])
    assert answer.content == assets()[name].content
    again = client.get(f"/console/{name}", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_file_that_is_named_exists(client: TestClient) -> None:
    named = {
        next(filter(None, groups))
        for name, asset in assets().items()
        if not name.startswith("vendor/")
        for groups in _NAMES.findall(asset.content.decode())
    }
    assert len(named) > 8
    assert named <= set(assets())
    assert named | {START} == set(assets())


def test_console_offers_all_scheduling_policies(client: TestClient) -> None:
    named = re.fullmatch(r"export const POLICIES = (\[.*\]);\n", client.get("/console/policies.js").text)
    assert named and json.loads(named[1]) == ["round_robin", "fifo", "greedy", "chain", "weighted_fair"]


@pytest.mark.parametrize("name", [name for name in sorted(assets()) if not name.startswith("vendor/")])
def test_console_requests_nothing_from_other_servers(client: TestClient, name: str) -> None:
    assert b"://" not in assets()[name].content
    policy = client.get(f"/console/{name}").headers["content-security-policy"]
    assert policy.startswith("default-src 'self';") and "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("name", ["nothing.js", "../assets.py", "%2e%2e/assets.py", "vendor", "vendor/dagre.LICENSE"])
def test_paths_that_are_not_console_files_are_not_found(client: TestClient, name: str) -> None:
    answer = client.get(f"/console/{name}")
    assert answer.status_code in (401, 404)
    assert "error" in answer.json()
