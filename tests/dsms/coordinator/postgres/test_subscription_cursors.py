"""Cursors over SUBSCRIBE with psycopg and asyncpg, over results in memory."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import asyncpg
import psycopg
import pyarrow as pa
import pytest

from dsms.coordinator.catalog.lookup import UnknownName
from dsms.coordinator.http.access import Access
from dsms.coordinator.postgres.server import PostgresServer, serving
from dsms.coordinator.results.change_documents import Followed
from dsms.coordinator.results.feed import Feeds, FeedSettings
from dsms.model.tokens import new_token
from tests.dsms.coordinator.postgres.local_served import LocalServed
from tests.support.streaming_service import MemoryLog

SCHEMA = pa.schema([
    ("room", pa.string()), ("t", pa.float64()), ("price", pa.decimal128(9, 2)), ("at", pa.timestamp("us")),
    ("tags", pa.list_(pa.string())),
])  # fmt: skip
HOT = Followed("o3", "hot", "dsms.hot", 1, SCHEMA, ("room",), "json")
MOMENT = dt.datetime(2024, 5, 1, 12, 0, 0, 250_000)  # noqa: DTZ001  a TIMESTAMP has no zone
FIRST = ("a", 1.5, Decimal("1.25"), MOMENT, ["x", None])
Client = psycopg.Connection[tuple[Any, ...]]


@dataclass
class MemoryResults:
    """One result, whose changes are in memory."""

    log: MemoryLog = field(default_factory=MemoryLog)
    ids: dict[str, str] = field(default_factory=lambda: {"hot": HOT.id})
    feeds: Feeds | None = None

    def result(self, name: str) -> Followed:
        if name != "hot":
            raise UnknownName("object", name, self.ids)
        return HOT

    def more_feeds(self, settings: FeedSettings) -> Feeds:
        quick = FeedSettings(poll_s=0.01, keep_alive_s=0.05)
        self.feeds = Feeds(self.log, lambda followed: self.ids.get(followed.name), quick)
        return self.feeds

    def add(self, ts: int, room: str, t: object = 1.5, op: str = "+") -> None:
        row = {"room": room, "t": t, "price": "1.25", "at": "2024-05-01T12:00:00.25Z", "tags": ["x", None]}
        self.log.append(0, op, ts, {"room": room}, row if op != "-" else None)

    def await_readers(self, count: int) -> None:
        until(lambda: self.feeds is not None and self.feeds.count == count)


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def service() -> Iterator[tuple[MemoryResults, int]]:
    results = MemoryResults()
    with serving(PostgresServer(LocalServed(results=results), None), "127.0.0.1", 0) as port:
        yield results, port


def connected(port: int, **settings: Any) -> Client:
    return psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/x", autocommit=True, **settings)


def rooms(client: Client, fetch: str) -> list[tuple[object, ...]]:
    return [row[:3] for row in client.execute(fetch).fetchall()]


def test_fetch_returns_changes_as_they_are_committed(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    results.add(1, "a")
    results.add(2, "b")
    with connected(port) as client:
        client.execute("DECLARE c CURSOR FOR SUBSCRIBE hot")
        cursor = client.execute("FETCH 1 FROM c")
        assert [column.name for column in cursor.description or ()] == ["dsms_ts", "dsms_op", *SCHEMA.names]
        assert cursor.fetchall() == [(1, "+", *FIRST)]
        results.add(3, "a", op="u")
        assert rooms(client, "FETCH 2 c WITH (TIMEOUT = '10 s')") == [(2, "+", "b"), (3, "u", "a")]
        assert rooms(client, "FETCH ALL FROM c WITH (timeout '1ms')") == []
        threading.Timer(0.2, results.add, (4, "a"), {"op": "-"}).start()
        removed = client.execute("FETCH FORWARD ALL FROM c WITH (timeout = '10s')").fetchall()
        assert removed == [(4, "-", "a", None, None, None, None)]
        assert client.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
        results.await_readers(0)
        with pytest.raises(psycopg.errors.InvalidCursorName):
            client.execute("FETCH c")


def test_values_in_binary_form_and_numbers_that_are_not_finite(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    results.add(1, "a")
    results.add(2, "b", "-Infinity")
    with connected(port) as client:
        client.execute("DECLARE c CURSOR FOR SUBSCRIBE TO hot WITH (SNAPSHOT)")
        found = client.cursor(binary=True).execute("FETCH 2 FROM c").fetchall()
        assert found == [(1, "+", *FIRST), (2, "+", "b", -float("inf"), *FIRST[2:])]


def test_without_a_snapshot_only_later_changes(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    results.add(1, "a")
    with connected(port) as client:
        client.execute("DECLARE c CURSOR FOR SUBSCRIBE hot WITH (SNAPSHOT = false)")
        results.add(2, "b")
        assert rooms(client, "FETCH 5 FROM c WITH (timeout = '200ms')") == [(2, "+", "b")]


def test_named_cursors_of_psycopg(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    for ts in range(3):
        results.add(ts, "a")
    with connected(port) as client, client.cursor("named") as cursor:
        cursor.execute("SUBSCRIBE hot")
        assert [column.name for column in cursor.description or ()][:3] == ["dsms_ts", "dsms_op", "room"]
        assert [row[0] for row in cursor.fetchmany(2)] == [0, 1]
        assert cursor.fetchone() == (2, "+", *FIRST)


def test_asyncpg_reads_through_a_cursor(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    results.add(1, "a")

    async def run() -> None:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", database="x", ssl=False)
        try:
            await client.execute("DECLARE c CURSOR FOR SUBSCRIBE hot")
            assert await client.fetch("FETCH 5 FROM c WITH (timeout = '300ms')") == [(1, "+", *FIRST)]
            results.add(2, "b")
            assert [row["room"] for row in await client.fetch("FETCH 1 FROM c WITH (timeout = '9s')")] == ["b"]
        finally:
            await client.close()

    asyncio.run(run())
    results.await_readers(0)


def test_subscriptions_end_with_the_client_its_cancel_and_its_transaction(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    with connected(port) as client:
        with client.transaction():
            client.execute("DECLARE c CURSOR FOR SUBSCRIBE hot")
            client.execute("DECLARE held CURSOR WITH HOLD FOR SUBSCRIBE hot")
            client.execute("DECLARE rows CURSOR FOR SELECT 1 AS a")
            assert client.execute("FETCH rows").fetchall() == [(1,)]
            for name in ("c", "held"):
                assert rooms(client, f"FETCH {name} WITH (timeout = '1ms')") == []
            results.await_readers(2)
        results.await_readers(1)
        threading.Timer(0.3, client.cancel_safe).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("FETCH held WITH (timeout = '60s')")
        results.add(1, "a")
        assert rooms(client, "FETCH held WITH (timeout = '9s')") == [(1, "+", "a")]
    results.await_readers(0)
    leaving = connected(port)
    leaving.execute("DECLARE c CURSOR FOR SUBSCRIBE hot WITH (SNAPSHOT = false)")
    leaving.pgconn.send_query(b"FETCH c WITH (timeout = '3000s')")
    results.await_readers(1)
    leaving.close()
    results.await_readers(0)


def test_the_drop_of_the_result_is_an_error(service: tuple[MemoryResults, int]) -> None:
    results, port = service
    with connected(port) as client:
        client.execute("DECLARE c CURSOR FOR SUBSCRIBE hot")
        results.ids.clear()
        with pytest.raises(psycopg.Error, match="dropped"):
            client.execute("FETCH c WITH (timeout = '9s')")
        client.execute("CLOSE ALL")


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DECLARE c CURSOR FOR SUBSCRIBE nothing", "not found"),
        ("DECLARE c CURSOR FOR SUBSCRIBE (SELECT 1)", "SUBSCRIBE takes one name"),
        ("DECLARE c CURSOR FOR SUBSCRIBE hot WITH (SPEED = 1)", 'unknown option "SPEED = 1"'),
        ("DECLARE a CURSOR FOR SUBSCRIBE hot", 'cursor "a" already exists'),
        ("DECLARE rows CURSOR FOR SUBSCRIBE hot", 'cursor "rows" already exists'),
        ("DECLARE a CURSOR FOR SELECT 1", 'cursor "a" already exists'),
        ("FETCH a WITH (timeout = 'soon')", "the timeout of FETCH is a time of at most one hour"),
        ("FETCH BACKWARD 1 FROM a", "only forward"),
        ("FETCH nothing WITH (timeout = '1s')", 'cursor "nothing" does not exist'),
    ],
)
def test_wrong_statements(service: tuple[MemoryResults, int], statement: str, error: str) -> None:
    with connected(service[1]) as client:
        client.execute("DECLARE a CURSOR FOR SUBSCRIBE hot")
        client.execute("DECLARE rows CURSOR FOR SELECT 1 AS x")
        with pytest.raises(psycopg.Error, match=error):
            client.execute(statement)
        assert client.execute("SELECT 1 AS a").fetchall() == [(1,)]


def test_a_session_has_a_limited_number_of_them(service: tuple[MemoryResults, int]) -> None:
    with connected(service[1]) as client:
        for number in range(10):
            client.execute(f"DECLARE c{number} CURSOR FOR SUBSCRIBE hot")
        with pytest.raises(psycopg.Error, match="at most 10 cursors over SUBSCRIBE"):
            client.execute("DECLARE more CURSOR FOR SUBSCRIBE hot")


def test_only_what_the_caller_may_read_is_followed() -> None:
    token, known = new_token("ann", "reader", read=("other",))
    server = PostgresServer(LocalServed(results=MemoryResults()), Access((known,)))
    with (
        serving(server, "127.0.0.1", 0) as port,
        connected(port, password=token) as client,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        client.execute("DECLARE c CURSOR FOR SUBSCRIBE hot")
