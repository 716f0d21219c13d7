"""The port for the processes of sinks: it accepts one token, and serves feeds beside those of the main port."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from dsms.coordinator.http.api import create_app
from dsms.coordinator.http.sink_listener import SinkListener
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.coordinator.results.feed import Feeds
from dsms.local.waiting import wait_until
from tests.support.streaming_service import QUICK, StreamingService, running


@pytest.fixture
def both() -> Iterator[tuple[StreamingService, str, SinkListener]]:
    """A service, the URL of its main port, and the listener."""
    with running() as (service, url):
        outlet = service.results
        listener = SinkListener(
            lambda access, feeds: create_app(service, SchemaRegistry(), access, feeds=feeds),
            lambda _: Feeds(outlet.log, lambda followed: outlet.ids.get(followed.name), QUICK),
        )
        yield service, url, listener
        listener.close()


def test_only_its_token_is_accepted_and_may_only_read(both: tuple[StreamingService, str, SinkListener]) -> None:
    access = both[2].access()
    assert access.url.startswith("http://127.0.0.1:") and access == both[2].access()
    token = {"Authorization": f"Bearer {access.token}"}
    with httpx.Client(base_url=access.url, trust_env=False) as client:
        assert client.get("/v1/queries/hot").status_code == 401
        assert client.get("/v1/queries/hot", headers={"Authorization": "Bearer other"}).status_code == 401
        assert client.get("/v1/queries/hot", headers=token).status_code == 200
        assert client.delete("/v1/queries/hot", headers=token).status_code == 403


def test_readers_of_both_ports_follow_one_result(both: tuple[StreamingService, str, SinkListener]) -> None:
    service, url, listener = both
    access = listener.access()
    lines: dict[str, list[str]] = {url: [], access.url: []}

    def read(base: str) -> None:
        headers = {"Authorization": f"Bearer {access.token}", "Accept": "application/x-ndjson"}
        with httpx.stream("GET", f"{base}/v1/queries/hot/changes", headers=headers, trust_env=False) as response:
            for line in response.iter_lines():
                if '"start"' in line or '"op"' in line:  # the others only keep the connection alive
                    lines[base].append(line)
                if len(lines[base]) == 3:
                    return

    readers = [threading.Thread(target=read, args=(base,), daemon=True) for base in lines]
    for reader in readers:
        reader.start()
    assert wait_until(lambda: all(len(found) == 1 for found in lines.values()), 20), lines
    for number in range(2):
        service.results.log.append(0, "+", number, ["a"], {"room": "a", "t": number})
        assert wait_until(lambda number=number: all(len(found) == 2 + number for found in lines.values()), 20), lines
