"""A page of another site, opened in a real browser on the machine of `dsms up`: it can neither read nor change
anything, with the default token and without one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from playwright.sync_api import Browser

from dsms.local.access_token import TOKEN_FILE
from dsms.local.settings import LocalSettings
from dsms.local.state import LocalState
from dsms.local.supervisor import down, up
from integration.kafka_log import last_values

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
#: The requests of an attacker's page contain a source, Python code, rows, records and statements.
AGGREGATE = "CREATE AGGREGATE evil(a INT) RETURNS INT LANGUAGE PYTHON HANDLER 'E' AS $$class E: pass$$"
PLAN = {"format": 1, "objects": [
    {"name": "stolen", "kind": "source", "statement": "REGISTER SOURCE stolen (a INT) FROM stolen PARTITIONS 1"},
    {"name": "evil", "kind": "aggregate", "statement": AGGREGATE},
]}  # fmt: skip
ATTACK = """async ([url, plan]) => {
  const outcomes = {};
  const attempt = async (name, path, options) => {
    try { outcomes[name] = (await fetch(url + path, options)).type; } catch (error) { outcomes[name] = "refused"; }
  };
  for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
    const options = { method: "POST", mode: "no-cors", headers: { "content-type": type } };
    await attempt(type + " plan", "/v1/plan", { ...options, body: plan });
    await attempt(type + " rows", "/v1/tables/t/rows?format=csv", { ...options, body: "a\\n1" });
    await attempt(type + " records", "/v1/sources/s/records", { ...options, body: '{"a": 1}' });
    await attempt(type + " sql", "/v1/statements", { ...options, body: '{"sql": "DROP TABLE t"}' });
  }
  await attempt("json", "/v1/statements", {
    method: "POST", headers: { "content-type": "application/json" }, body: '{"sql": "DROP TABLE t"}',
  });
  await attempt("read", "/v1/queries", {});
  await attempt("beacon", "/v1/plan", { method: "GET", mode: "no-cors" });
  navigator.sendBeacon(url + "/v1/plan", plan);
  return outcomes;
}"""


class Page(BaseHTTPRequestHandler):
    """An empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>harmless</title>")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def other_site() -> Iterator[str]:
    """A web site on another port, which browsers treat as another origin of the same site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def started(data_dir: Path, **changes: bool) -> Iterator[LocalState]:
    settings = LocalSettings(data_dir=data_dir, kafka_port=0, redis_port=0, http_port=0, executors=0, **changes)
    try:
        yield up(settings, report=lambda _: None)
    finally:
        down(data_dir, report=lambda _: None)


@pytest.mark.parametrize("without_token", [False, True])
def test_page_of_another_site_has_no_effect(tmp_path: Path, browser: Browser, without_token: bool) -> None:
    with started(tmp_path, without_token=without_token, python=True) as state, other_site() as site:
        assert state.coordinator is not None
        url = state.coordinator
        headers = {} if without_token else {"Authorization": f"Bearer {(tmp_path / TOKEN_FILE).read_text().strip()}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as ours:
            made = "CREATE TABLE t (a INT); REGISTER SOURCE s (a INT) FROM s PARTITIONS 1"
            assert ours.post("/v1/statements", json={"sql": made}).status_code == 200
            before = ours.get("/v1/plan").json()
            page = browser.new_page()
            page.goto(site)
            outcomes = page.evaluate(ATTACK, [url, json.dumps(PLAN)])
            assert set(outcomes.values()) <= {"refused", "opaque"} and outcomes["read"] == outcomes["json"] == "refused"
            page.close()
            assert ours.get("/v1/plan").json() == before
            assert end_offset(state.kafka, "s") == 0 and rows_of_table(state.kafka) == {}
            assert answer_after_rebinding(url).status_code == 421
        assert httpx.get(f"{url}/v1/queries", trust_env=False).status_code == (200 if without_token else 401)


def end_offset(kafka: str, topic: str) -> int:
    """The end offset of the only partition of a topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "none"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1])
    finally:
        consumer.close()


def rows_of_table(kafka: str) -> dict[bytes, bytes]:
    """The values in the log of the table by key, without the records of the coordinator."""
    return {key: value for key, value in last_values(kafka, "dsms.t").items() if value and b'"a"' in value}


def answer_after_rebinding(url: str) -> httpx.Response:
    """The answer to a page whose host name now resolves to this machine (DNS rebinding)."""
    return httpx.get(f"{url}/v1/queries", headers={"Host": "evil.example"}, trust_env=False)
