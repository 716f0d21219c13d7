"""A coordinator that does not lead reports that it is alive and not ready, and refuses all other calls."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from dsms.coordinator.election.standby import standby_app
from dsms.coordinator.http.serving import Address, serve
from dsms.local.ports import free_port
from dsms.local.waiting import wait_until
from operators.core.errors import ConfigError
from tests.support.http_server_thread import serving


def test_standby_is_alive_and_not_ready():
    with serving(standby_app(lambda: '"b" leads')) as url, httpx.Client(base_url=url, trust_env=False) as client:
        assert client.get("/healthz").status_code == 200
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"leader": '"b" leads'})


@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/statements"), ("GET", "/v1/queries"), ("GET", "/subjects")])
def test_standby_refuses_all_other_calls(method: str, path: str):
    with serving(standby_app(lambda: "nobody leads")) as url:
        answer = httpx.request(method, url + path, json={"sql": "SHOW QUERIES"}, trust_env=False)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    error = answer.json()["error"]
    assert (error["message"], error["hint"]) == ("this coordinator does not lead", "nobody leads")


def test_serving_ends_with_its_event_and_leaves_the_port_free():
    """The coordinator that takes over can listen on the same port at once."""
    port, first, second = free_port(), threading.Event(), threading.Event()
    for until in (first, second):
        thread = threading.Thread(target=serve, args=(standby_app(str), Address("127.0.0.1", port), until))
        thread.start()
        assert wait_until(lambda: _answers(f"http://127.0.0.1:{port}/healthz"), 20)
        until.set()
        thread.join(20)
        assert not thread.is_alive()


def test_https_needs_certificate_and_key():
    with pytest.raises(ConfigError, match="belong together"):
        Address("127.0.0.1", 1, key=Path("k"))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
