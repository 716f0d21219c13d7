"""The HTTP API over a real server and an in-memory service."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import Request

from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.errors import dsms_error_response, json_response
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.statements.replacements import BeingReplaced
from dsms.local.waiting import wait_until
from dsms.model.statement_result import EncodedRows
from dsms.tables.select_budget import Cancelled, TookTooLong, TooManySelects, limit_exceeded
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[FakeService, httpx.Client]]:
    service = FakeService()
    with serving(create_app(service, SchemaRegistry())) as url, httpx.Client(base_url=url) as client:
        yield service, client


@pytest.fixture
def service(shared):
    shared[0].__init__()
    return shared[0]


@pytest.fixture
def client(shared, service):
    return shared[1]


def test_statement_results(client, service):
    answer = client.post("/v1/statements", json={"sql": "CREATE STREAM s OVER readings KEY room"})
    assert answer.status_code == 200
    assert answer.json() == {
        "results": [
            {
                "statement": "CREATE STREAM",
                "message": 'stream "s" created',
                "columns": [],
                "rows": [],
                "notices": ["window: unbounded"],
                "name": "s",
                "types": [],
                "instant": None,
                "behind_ms": None,
            }
        ]
    }
    assert service.executed == ["CREATE STREAM s OVER readings KEY room"]


def test_call_is_cancelled_when_its_client_disconnects(client, service):
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/statements", json={"sql": "SELECT forever"}, timeout=0.5)
    assert wait_until(lambda: service.cancelled, 20)


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry"),
    [
        (TookTooLong("too long"), 408, "limit", None),
        (limit_exceeded("select_rows", "too many rows"), 400, "limit", None),
        (TooManySelects("busy"), 429, "busy", "1"),
        (Cancelled("gone"), 499, "user", None),
    ],
)
def test_errors_of_limits(error, status, kind, retry):
    answer = dsms_error_response(Request({"type": "http"}), error)
    assert (answer.status_code, json.loads(answer.body)["error"]["kind"]) == (status, kind)
    assert answer.headers.get("retry-after") == retry


def test_rows_that_are_json_already_are_answered_as_they_are():
    document = {"rows": EncodedRows(b'[["a",1.50],["b",null]]', 2)}
    assert json_response(document).body == b'{"rows":[["a",1.50],["b",null]]}'


def test_decimals_keep_their_digits(client):
    assert client.post("/v1/statements", json={"sql": "SHOW x"}).json()["results"][0]["rows"] == [["hot", "1.50"]]


def test_sql_error_points_at_line_and_column(client):
    answer = client.post("/v1/statements", json={"sql": "SELECT * FROM nope"})
    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "kind": "sql",
        "message": 'stream "nope" not found',
        "hint": "have: readings",
        "line": 1,
        "column": 15,
    }


def test_external_error_asks_to_retry(client):
    answer = client.post("/v1/statements", json={"sql": "outage"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["error"]["kind"] == "external"


def test_a_query_that_is_being_replaced_asks_to_retry():
    """The status is not 409, because an answer below 500 is stored for its idempotency key."""
    answer = dsms_error_response(Request({"type": "http"}), BeingReplaced('query "q" is being replaced'))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert json.loads(answer.body)["error"]["kind"] == "busy"


def test_internal_error_is_reported(client):
    answer = client.post("/v1/statements", json={"sql": "defect"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "frontier moved back")


@pytest.mark.parametrize("body", [{}, {"sql": 1}, {"sql": "x", "sqll": "y"}])
def test_invalid_body_is_refused(client, body):
    answer = client.post("/v1/statements", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "user"


def test_objects(client):
    assert [o["name"] for o in client.get("/v1/sources").json()] == ["readings"]
    assert [o["name"] for o in client.get("/v1/streams").json()] == ["hot"]
    assert client.get("/v1/queries").json() == []
    assert client.get("/v1/streams/hot").json()["topic"] == "dsms.hot"


@pytest.mark.parametrize("path", ["/v1/streams/x", "/v1/queries/x", "/v1/sources/x", "/v1/sources/x/dead-letters"])
def test_unknown_names_list_the_choices(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "kind": "not-found",
        "message": 'object "x" not found',
        "hint": "have: hot, readings",
        "line": None,
        "column": None,
    }


def test_drop(client):
    assert client.delete("/v1/streams/hot").json()["message"] == '"hot" dropped'
    assert client.delete("/v1/queries/hot").status_code == 404


def test_dead_letters_keep_undecodable_bytes(client):
    letters = client.get("/v1/sources/readings/dead-letters", params={"limit": 5}).json()
    assert letters == [{"partition": 0, "offset": 7, "reason": "not JSON", "value": "/3s="}]
    assert client.get("/v1/sources/readings/dead-letters", params={"limit": 0}).status_code == 400


def test_health(client, service):
    assert client.get("/healthz").status_code == 200
    assert (client.get("/readyz").status_code, client.get("/readyz").json()) == (200, {})
    service.unready = {"kafka": "no broker"}
    assert (client.get("/readyz").status_code, client.get("/readyz").json()) == (503, {"kafka": "no broker"})


def test_history(client):
    (sample,) = client.get("/v1/queries/hot/history", params={"minutes": 15}).json()
    assert (sample["at"], sample["unread"]) == ("2026-11-30T12:00:00.000Z", 15)
    assert client.get("/v1/queries/none/history").status_code == 404
    assert client.get("/v1/queries/hot/history", params={"minutes": 361}).status_code == 400


def test_status(client):
    assert client.get("/v1/status").json()["executors"] == {"e1": {"state": "running"}}


def test_openapi_describes_every_path_once(client):
    document = client.get("/openapi.json").json()
    operations = [o for path in document["paths"].values() for o in path.values()]
    ids = [o["operationId"] for o in operations]
    assert len(ids) == len(set(ids))
    assert {"/v1/statements", "/v1/streams/{name}", "/readyz", "/subjects"} <= set(document["paths"])
    example = document["components"]["schemas"]["StatementsRequest"]["properties"]["sql"]["examples"]
    assert example and example[0].startswith("CREATE")


def test_openapi_and_the_documentation_name_every_kind_of_error(client):
    kinds = set(
        client.get("/openapi.json").json()["components"]["schemas"]["ErrorDetail"]["properties"]["kind"]["enum"]
    )
    assert {"sql", "busy", "unauthorized", "unknown"} <= kinds
    section = (ROOT / "docs" / "api.md").read_text().split("## Errors")[1].split("## ")[0]
    assert {kind for kind in re.findall(r"`([a-z-]+)`", section) if kind not in ("line", "column")} == kinds
