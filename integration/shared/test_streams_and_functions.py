"""ESL's streams and functions in Python through real Kafka, Redis and Spark, with results computed by hand."""

from __future__ import annotations

import json
from functools import partial

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster
from integration.kafka_log import Input, advance, changes, letters, write

pytestmark = pytest.mark.services

STREAMS = """
CREATE STREAM {p}OpenAuction (itemID int, sellerID char(10), price real, start_time bigint)
    ORDER BY start_time; SOURCE '{p}port4445' PARTITIONS 1 IDLE NEVER SLACK 2 LATE INTO {p}Stragglers;
CREATE STREAM {p}ClosedAuction(itemID int, buyerID char(10), price real, current_time bigint)
    ORDER BY current_time; SOURCE '{p}port4446' PARTITIONS 1 IDLE NEVER;
CREATE STREAM {p}PriceRise(itemID, price, Time) AS
    SELECT itemID, price, start_time FROM {p}OpenAuction
    UNION ALL
    SELECT itemID, price, current_time FROM {p}ClosedAuction;
CREATE STREAM {p}Late AS SELECT itemID, start_time FROM {p}Stragglers;
SELECT itemID FROM {p}OpenAuction WHERE price > 1000
"""
FUNCTIONS = """
CREATE FUNCTION {p}add(a INT) RETURNS INT LANGUAGE PYTHON HANDLER 'add' AS $$
import pyarrow.compute as pc
def add(a): return pc.add(a, 100)
$$;
CREATE FUNCTION {p}inverse(a INT) RETURNS DOUBLE LANGUAGE PYTHON HANDLER 'inverse' AS $$
def inverse(a): return [1 / v for v in a.to_pylist()]
$$;
CREATE FUNCTION {p}forever(a INT) RETURNS INT LANGUAGE PYTHON HANDLER 'forever' WITH (time_limit = '1 s') AS $$
def forever(a):
    while True: pass
$$;
CREATE AGGREGATE {p}total(n INT): BIGINT LANGUAGE PYTHON HANDLER 'Total' AS $$
class Total:
    total = 0
    def iterate(self, n): self.total += n
    def expire(self, n): self.total -= n
    def terminate(self): return self.total
$$;
CREATE AGGREGATE {p}part(n INT): DOUBLE LANGUAGE PYTHON HANDLER 'Part' AS $$
class Part:
    def iterate(self, n): self.part = 1 / n
    def terminate(self): return self.part
$$;
CREATE STREAM {p}N (n INT, at BIGINT) ORDER BY at SOURCE '{p}numbers' PARTITIONS 1 IDLE NEVER;
CREATE STREAMED VIEW {p}Sums AS SELECT n, {p}add(n) AS x FROM {p}N;
CREATE STREAM {p}Pairs AS SELECT n, {p}total(n) OVER (ROWS 1 PRECEDING) AS t FROM {p}N;
CREATE STREAM {p}Parts AS SELECT {p}part(n) OVER (ROWS 1 PRECEDING) AS x FROM {p}N;
CREATE STREAMED VIEW {p}Inverses AS SELECT {p}inverse(n) AS x FROM {p}N;
CREATE STREAMED VIEW {p}Stuck AS SELECT {p}forever(n) AS x FROM {p}N
"""


def rows(cluster: Cluster, name: str) -> list[tuple[object, ...]]:
    """The published rows of a result, with their instants."""
    found = changes(cluster.kafka, cluster.topic(name))
    return [(*json.loads(change.value or b"{}").values(), change.ts) for change in found]


def state(cluster: Cluster, name: str) -> str:
    (shown,) = [row for row in cluster.sql("SHOW VIEWS")[0]["rows"] if row[0] == name]
    return str(shown[2])


def told(cluster: Cluster, name: str, why: str) -> bool:
    return why in state(cluster, name)


def test_streams_as_esl_declares_them(cluster: Cluster, unique: str) -> None:
    started = cluster.sql(STREAMS.format(p=unique))[-1]["name"]
    opened = [(1, 900.0, 10), (2, 1500.0, 14), (3, 950.0, 13), (4, 1100.0, 9)]
    write(
        cluster.kafka,
        f"{unique}port4445",
        [
            Input(json.dumps({"itemID": i, "sellerID": "ann", "price": p, "start_time": at}).encode(), 0)
            for i, p, at in opened
        ],
    )
    # the second record arrives at 12, although its timestamp is 11
    closed = [(1, 950.0, 12), (3, 1200.0, 11)]
    write(
        cluster.kafka,
        f"{unique}port4446",
        [Input(json.dumps({"itemID": i, "buyerID": "bob", "price": p}).encode(), at) for i, p, at in closed],
    )
    for topic in ("port4445", "port4446"):
        advance(cluster.kafka, f"{unique}{topic}", 20)
    cluster.await_frontier(cluster.topic(f"{unique}PriceRise"), 20)
    assert rows(cluster, f"{unique}PriceRise") == [
        (1, 900.0, 10, 10),
        (1, 950.0, 12, 12),
        (3, 1200.0, 12, 12),
        (3, 950.0, 13, 13),
        (2, 1500.0, 14, 14),
    ]
    cluster.await_frontier(cluster.topic(started), 20)
    assert rows(cluster, started) == [(2, 14)]
    # the late record is a dead letter, and the only record of its stream, with the instant of its arrival there
    assert len(letters(cluster.kafka, f"{unique}OpenAuction_source")) == 1
    assert wait_until(lambda: bool(rows(cluster, f"{unique}Late")), 120)
    assert [row[:2] for row in rows(cluster, f"{unique}Late")] == [(4, 9)]


def test_code_in_python_that_fails_stops_its_own_query_only(cluster: Cluster, unique: str) -> None:
    cluster.sql(FUNCTIONS.format(p=unique))
    write(
        cluster.kafka,
        f"{unique}numbers",
        [Input(json.dumps({"n": n, "at": at}).encode(), 0) for at, n in enumerate((5, 0, 2), 1)],
    )
    advance(cluster.kafka, f"{unique}numbers", 10)
    for name in ("Sums", "Pairs"):
        cluster.await_frontier(cluster.topic(f"{unique}{name}"), 10)
    assert rows(cluster, f"{unique}Sums") == [(5, 105, 1), (0, 100, 2), (2, 102, 3)]
    assert rows(cluster, f"{unique}Pairs") == [(5, 5, 1), (0, 5, 2), (2, 2, 3)]
    failures = {
        "Inverses": "at the row a = 0: ZeroDivisionError",
        "Parts": "at the row n = 0: ZeroDivisionError",
        "Stuck": "it took longer than 1 s",
    }
    for name, why in failures.items():
        assert wait_until(partial(told, cluster, f"{unique}{name}", why), 120), state(cluster, f"{unique}{name}")
        assert rows(cluster, f"{unique}{name}") == []
    # the others continue after the failures
    write(cluster.kafka, f"{unique}numbers", [Input(json.dumps({"n": 7, "at": 11}).encode(), 0)])
    advance(cluster.kafka, f"{unique}numbers", 20)
    cluster.await_frontier(cluster.topic(f"{unique}Sums"), 20)
    assert rows(cluster, f"{unique}Sums")[-1] == (7, 107, 11)
    cluster.await_frontier(cluster.topic(f"{unique}Pairs"), 20)
    assert rows(cluster, f"{unique}Pairs")[-1] == (7, 9, 11)
