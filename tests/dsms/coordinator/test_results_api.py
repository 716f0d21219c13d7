"""Following results and publishing records, over a real HTTP server and a log in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fastavro
import httpx
import pytest

from dsms.coordinator.http.access import Access
from dsms.coordinator.results.change_documents import Followed, lines_of
from dsms.coordinator.results.coverage import CoverageReport
from dsms.coordinator.results.feed import FeedSettings
from dsms.local.waiting import wait_until
from dsms.model.tokens import new_token
from tests.support.streaming_service import (
    HOT,
    SCHEMA,
    MemoryLog,
    StreamingService,
    connected,
    record,
    running,
)

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def served() -> Iterator[tuple[StreamingService, str]]:
    with running() as service_and_url:
        yield service_and_url


def fill(log: MemoryLog) -> None:
    log.append(0, "+", 2, {"room": "a"}, {"room": "a", "t": 105})
    log.append(0, "u", 3, {"room": "a"}, {"room": "a", "t": 106})
    log.mark(0)
    log.append(0, "-", 5, {"room": "a"}, None)
    log.append(1, "+", 4, {"room": "é\u2028"}, {"room": "é\u2028", "t": None})


#: The documents for the log of `fill`, written by hand.
DOCUMENTS = [
    {"op": "+", "row": {"room": "a", "t": 105}, "ts": 2, "partition": 0, "offset": 0},
    {"op": "u", "row": {"room": "a", "t": 106}, "ts": 3, "partition": 0, "offset": 1},
    {"op": "-", "key": {"room": "a"}, "ts": 5, "partition": 0, "offset": 3},
    {"op": "+", "row": {"room": "é\u2028", "t": None}, "ts": 4, "partition": 1, "offset": 0},
]


def by_place(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(documents, key=lambda document: (document["partition"], document["offset"]))


def ndjson(url: str, query: str = "", **options: Any) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/v1/queries/hot/changes?follow=false{query}", trust_env=False, **options)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.content.split(b"\n") if line]


def events(text: str) -> list[dict[str, str]]:
    """Parses server-sent events by their standard, without comments."""
    blocks = [block for block in text.replace("\r\n", "\n").split("\n\n") if block]
    parsed = [dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":")) for block in blocks]
    return [event for event in parsed if event]


def test_lines_of_json(served: tuple[StreamingService, str]) -> None:
    service, url = served
    fill(service.results.log)
    start, *changes, end = ndjson(url)
    columns = {"columns": ["room", "t"], "types": ["VARCHAR", "BIGINT"], "key": ["room"]}
    assert start == {"event": "start", "name": "hot", **columns, "token": "o3:0,0"}
    tokens = [change.pop("token") for change in changes]
    assert by_place(changes) == DOCUMENTS
    assert (end["event"], end["reason"], end["token"]) == ("end", "end", "o3:4,1")
    assert len(set(tokens)) == 4 and tokens[-1] == "o3:4,1"


def test_reading_after_any_token_gives_exactly_the_rest(served: tuple[StreamingService, str]) -> None:
    service, url = served
    fill(service.results.log)
    whole = [line for line in ndjson(url) if "op" in line]
    for at, change in enumerate(whole, 1):
        assert [line for line in ndjson(url, f"&after={change['token']}") if "op" in line] == whole[at:]


def test_server_sent_events_and_their_last_id(served: tuple[StreamingService, str]) -> None:
    service, url = served
    fill(service.results.log)
    path, accept = f"{url}/v1/queries/hot/changes?follow=false&after=o3:0,0", {"Accept": "text/event-stream"}
    answer = httpx.get(path, headers=accept, trust_env=False)
    assert answer.headers["content-type"].startswith("text/event-stream")
    start, *changes, end = events(answer.text)
    assert (start["event"], start["id"], end["event"]) == ("start", "o3:0,0", "end")
    assert by_place([json.loads(change["data"]) for change in changes]) == DOCUMENTS
    again = httpx.get(path, headers={**accept, "Last-Event-ID": changes[2]["id"]}, trust_env=False)
    assert events(again.text)[1:-1] == changes[3:]


def reading(url: str, query: str = "", accept: str = "application/x-ndjson") -> Any:
    return httpx.stream(
        "GET", f"{url}/v1/queries/hot/changes{query}", headers={"Accept": accept}, timeout=20, trust_env=False
    )


def test_latest_gives_only_what_comes_and_a_drop_ends_it(served: tuple[StreamingService, str]) -> None:
    service, url = served
    fill(service.results.log)
    with reading(url, "?from=latest") as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines))["token"] == "o3:4,1"
        service.results.log.append(1, "+", 9, {"room": "b"}, {"room": "b", "t": 1})
        change = next(json.loads(line) for line in lines if line)
        assert (change["row"], change["token"]) == ({"room": "b", "t": 1}, "o3:4,2")
        service.results.ids.clear()
        end = next(json.loads(line) for line in lines if line)
        assert (end["event"], end["reason"], end["message"]) == ("end", "dropped", '"hot" was dropped')
        assert not [line for line in lines if line]


def test_a_replaced_query_is_followed_under_its_new_id(served: tuple[StreamingService, str]) -> None:
    service, url = served
    fill(service.results.log)
    with reading(url) as answer:
        lines = answer.iter_lines()
        while "o3:4,1" not in next(lines):
            pass
        service.results.ids["hot"], service.results.results["hot"] = "o9", replace(HOT, id="o9")
        service.results.log.append(1, "+", 9, {"room": "b"}, {"room": "b", "t": 1})
        end = json.loads([line for line in lines if line][-1])
    assert (end["event"], end["reason"]) == ("end", "replaced")
    rest = [line for line in ndjson(url, f"&after={end['token']}") if "op" in line]
    assert [change["ts"] for change in rest] == ([] if end["token"] == "o9:4,2" else [9])
    assert httpx.get(f"{url}/v1/queries/hot/changes?after=o3:4,1", trust_env=False).status_code == 410


@pytest.mark.parametrize(("accept", "beat"), [("text/event-stream", ": beat"), ("application/x-ndjson", "")])
def test_silence_is_filled_with_heartbeats(served: tuple[StreamingService, str], accept: str, beat: str) -> None:
    with reading(served[1], accept=accept) as answer:
        lines = answer.iter_lines()
        first = [next(lines) for _ in range(1 if beat == "" else 4)]
        assert "start" in "".join(first)
        assert next(lines) == beat


@pytest.mark.parametrize(
    ("path", "headers", "status", "kind"),
    [
        ("hot/changes?after=x", {}, 400, "user"),
        ("hot/changes?after=o3:9999999999999999999,0", {}, 400, "user"),
        ("hot/changes?after=o2:0,0", {}, 410, "gone"),
        ("hot/changes?after=o3:0", {}, 410, "gone"),
        ("hot/changes?after=o3:5,0", {}, 410, "gone"),
        ("hot/changes?from=never", {}, 400, "user"),
        ("hot/changes", {"Accept": "text/html"}, 406, "user"),
        ("cold/changes", {}, 404, "not-found"),
        ("hot/covers?token=x", {}, 400, "user"),
        ("hot/covers?token=o1:0/1&wait=61", {}, 400, "user"),
    ],
)
def test_refused(served: tuple[StreamingService, str], path: str, headers: dict, status: int, kind: str) -> None:
    fill(served[0].results.log)
    answer = httpx.get(f"{served[1]}/v1/queries/{path}", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (status, kind)


def test_number_of_readers_is_limited() -> None:
    with running(FeedSettings(poll_s=0.01, feeds=1)) as (_, url), reading(url) as first:
        lines = first.iter_lines()
        assert "start" in next(lines)
        answer = httpx.get(f"{url}/v1/queries/hot/changes", trust_env=False)
        assert (answer.status_code, answer.json()["error"]["kind"], answer.headers["retry-after"]) == (429, "busy", "1")


def test_stalled_reader_stops_reading_ahead(served: tuple[StreamingService, str]) -> None:
    service, url = served
    log, rows = service.results.log, 40_000
    for ts in range(rows):
        log.append(0, "+", ts, {"room": "a"}, {"room": "x" * 1000, "t": ts})
    with connected(url, "/v1/queries/hot/changes"):
        looks: list[int] = []

        def reading_has_stopped() -> bool:
            """Some records were read, but none during the last 20 checks, which is 0.4 s."""
            looks.append(log.offsets)
            return len(looks) > 20 and looks[-1] > 0 and len(set(looks[-20:])) == 1

        assert wait_until(reading_has_stopped, 60, pause_s=0.02)
        # only as much as the sockets' buffers hold was read, a few MB; the other 36 MB were not
        assert 0 < looks[-1] < rows / 2, f"{looks[-1]} of {rows} records were read"
    last = ndjson(url, f"&after=o3:{rows - 1},0")
    assert [line["row"]["t"] for line in last if "op" in line] == [rows - 1]
    assert wait_until(lambda: service.results.feeds.count == 0, 10)


def test_many_readers_share_a_few_threads(served: tuple[StreamingService, str]) -> None:
    service, url = served
    fill(service.results.log)
    before = threading.active_count()
    readers = [connected(url, "/v1/queries/hot/changes?from=latest") for _ in range(300)]
    try:
        assert wait_until(lambda: service.results.feeds.count == len(readers), 30), service.results.feeds.count
        asked = time.monotonic()
        assert httpx.get(f"{url}/v1/streams/hot", trust_env=False).status_code == 200
        assert time.monotonic() - asked < 2
        reads = service.results.log.reads
        service.results.log.append(0, "+", 9, {"room": "b"}, {"room": "b", "t": 1234567})
        for reader in readers:
            text = b""
            while b"1234567" not in text:
                text += reader.recv(4096)
        assert threading.active_count() - before < 50
        assert service.results.log.reads - reads < 10
    finally:
        for reader in readers:
            reader.close()


def test_avro_results_are_the_same_documents() -> None:
    avro = Followed("o4", "hot", "dsms.hot", 1, SCHEMA, ("room",), "avro")
    fields = [{"name": "room", "type": ["null", "string"]}, {"name": "t", "type": ["null", "long"]}]

    def encoded(columns: int, row: dict[str, Any]) -> bytes:
        import io

        out = io.BytesIO(b"\0\0\0\0\1")
        out.seek(5)
        parsed = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields[:columns]})
        fastavro.schemaless_writer(out, parsed, row)
        return out.getvalue()

    key = encoded(1, {"room": "a"})
    records = [
        record((0, 7), key, encoded(2, {"room": "a", "t": 105}), ("dsms-ts", b"2")),
        record((0, 9), key, None, ("dsms-op", b"-"), ("dsms-ts", b"3")),
    ]
    assert [(line.following, json.loads(line.document)) for line in lines_of(avro, records)] == [
        (8, {"op": "+", "row": {"room": "a", "t": 105}, "ts": 2, "partition": 0, "offset": 7}),
        (10, {"op": "-", "key": {"room": "a"}, "ts": 3, "partition": 0, "offset": 9}),
    ]


def test_records_of_a_call(served: tuple[StreamingService, str]) -> None:
    service, url = served
    path = f"{url}/v1/sources/readings/records?key=room&advance=1970-01-01T00:00:00.007Z"
    for body in (b'[{"room": "a"}, {"room": "b"}]', b'{"room": "a"}\r\n\n{"room": "b"}'):
        answer = httpx.post(path, content=body, headers=LINES, trust_env=False)
        assert answer.json() == {
            "records": [
                {"partition": 0, "offset": 0, "token": "o1:0/0"},
                {"partition": 0, "offset": 1, "token": "o1:0/1"},
            ],
            "token": "o1:0/0-1",
        }
        name, records, key, advance = service.results.published.pop()
        assert [json.loads(value) for value in records] == [{"room": "a"}, {"room": "b"}]
        assert (name, key, advance) == ("readings", ["room"], 7)
    for wrong in (b"[1,", b"[" * 100_000, b'{"a":1}\n' * 10_001):
        assert httpx.post(path, content=wrong, headers=LINES, trust_env=False).status_code == 400
    large = b" " * (16 * 1024 * 1024 + 1)
    assert httpx.post(path, content=large, headers=LINES, trust_env=False).status_code == 413


def test_covering_is_waited_for(served: tuple[StreamingService, str]) -> None:
    service, url = served
    path = f"{url}/v1/queries/hot/covers?token=o1:0/4"
    service.results.covers = [CoverageReport(covered=False, processed=True, frontier=9, offsets={0: 5})]
    late = httpx.get(path, trust_env=False)
    assert (late.status_code, late.json()["frontier"], late.json()["offsets"]) == (202, 9, {"0": 5})
    service.results.covers += [CoverageReport(covered=True, processed=True, frontier=10, offsets={0: 5})]
    assert httpx.get(f"{path}&wait=20", trust_env=False).status_code == 200
    service.results.covers = [CoverageReport(covered=False, error="division by zero")]
    assert httpx.get(f"{path}&wait=20", trust_env=False, timeout=5).json()["error"] == "division by zero"


def test_roles() -> None:
    (reader, kept), (writer, written) = new_token("r", "reader"), new_token("w", "writer")
    with running(access=Access((kept, written))) as (service, url):
        service.results.covers = [CoverageReport(covered=True)]
        paths = ("hot/changes?follow=false", "hot/covers?token=o1:0/4")
        for token, reads, publishes in (("", 401, 401), (reader, 200, 403), (writer, 200, 200)):
            headers = {"Authorization": f"Bearer {token or 'none'}", **LINES}
            for path in paths:
                assert httpx.get(f"{url}/v1/queries/{path}", headers=headers, trust_env=False).status_code == reads
            path = f"{url}/v1/sources/readings/records"
            assert httpx.post(path, content=b"{}", headers=headers, trust_env=False).status_code == publishes


def test_right_to_publish_is_checked_before_records_are_sent() -> None:
    tokens = {role: new_token(role, role) for role in ("reader", "writer", "administrator")}
    with running(access=Access(tuple(kept for _, kept in tokens.values()))) as (_, url):
        for topic, role, force, status in (
            ("readings", "reader", "false", 403),
            ("readings", "writer", "false", 200),
            ("_dsms.main.progress", "writer", "false", 400),
            ("_dsms.main.progress", "writer", "true", 403),
            ("_dsms.main.progress", "administrator", "false", 400),
            ("_dsms.main.progress", "administrator", "true", 200),
            ("wrong%20name", "writer", "false", 400),
        ):
            path, headers = f"{url}/v1/topics/{topic}/publishing", {"Authorization": f"Bearer {tokens[role][0]}"}
            answer = httpx.get(path, params={"force": force}, headers=headers, trust_env=False)
            assert answer.status_code == status, (topic, role, force, answer.text)
