"""ESL's example 9 as printed: inserts a stream into a table through Kafka and Spark, with kill -9 in between."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from integration.cluster import Cluster, feed_and_crash, running
from integration.kafka_log import Input, advance, read_committed, write
from tests.papers import esl_aggregates as paper

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
#: Names begin with the cluster's, because result topics are named after their objects and the broker is shared.
OBJECTS = """
CREATE STREAM {p}OpenAuction (itemID int, sellerID char(10), price real, start_time bigint)
    ORDER BY start_time; SOURCE '{p}port4445' PARTITIONS 1 IDLE NEVER;
CREATE STREAM {p}Visits (sellerID char(10), at bigint) ORDER BY at SOURCE '{p}visits' PARTITIONS 1 IDLE NEVER;
CREATE TABLE {p}Recent (sellerID VARCHAR PRIMARY KEY, price DOUBLE NOT NULL)
"""
AUCTIONS = [("ann" if at % 3 else "bob", float(at * 37 % 101), at) for at in range(1, 61)]
VISITS = [("ann" if at % 2 else "bob", at) for at in range(5, 61, 5)]


def averages() -> list[tuple[str, float, int]]:
    """The recent average of each seller after each auction, by the formula of example 8."""
    seen: dict[str, tuple[float, int]] = {}
    found = []
    for seller, price, at in AUCTIONS:
        total, count = seen.get(seller, (0.0, 0))
        seen[seller] = (0.9 * total + 1.1 * price if count else price, count + 1)
        found.append((seller, seen[seller][0] / seen[seller][1], at))
    return found


def records(cluster: Cluster, name: str) -> list[tuple[str, dict[str, object], int]]:
    """The committed changes of a topic, without the promises to readers of a table."""
    found = []
    for message in read_committed(cluster.kafka, f"dsms.{cluster.name}{name}"):
        headers = dict(message.headers() or [])
        if "dsms-heartbeat" not in headers:
            op = headers.get("dsms-op", b"+").decode()
            found.append((op, json.loads(message.value() or message.key()), int(headers["dsms-ts"])))
    return found


def feed(cluster: Cluster, low: int, high: int) -> None:
    """Writes the auctions and visits at instants above `low`, up to `high`."""
    p = cluster.name
    auctions = [
        Input(json.dumps({"itemID": at, "sellerID": seller, "price": price, "start_time": at}).encode(), at)
        for seller, price, at in AUCTIONS
        if low < at <= high
    ]
    visits = [Input(json.dumps({"sellerID": who, "at": at}).encode(), at) for who, at in VISITS if low < at <= high]
    write(cluster.kafka, f"{p}port4445", auctions)
    write(cluster.kafka, f"{p}visits", visits)
    for topic in ("port4445", "visits"):
        advance(cluster.kafka, f"{p}{topic}", high + 1)


def test_a_stream_fills_a_table_exactly_once(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path) as cluster:
        p = cluster.name
        cluster.sql(OBJECTS.format(p=p))
        cluster.sql(paper.EXAMPLE_8)
        cluster.sql(paper.EXAMPLE_9.replace("AskdPrice", f"{p}AskdPrice").replace("OpenAuction", f"{p}OpenAuction"))
        cluster.sql(f"INSERT INTO {p}Recent SELECT sellerID, avg_price FROM {p}AskdPrice")
        cluster.sql(
            f"CREATE STREAM {p}Met AS SELECT Istream(V.sellerID, V.at, R.price) "
            f"FROM {p}Visits [NOW] V, {p}Recent R WHERE V.sellerID = R.sellerID"
        )
        topics = [f"dsms.{p}AskdPrice", f"dsms.{p}Met"]
        low = feed_and_crash(cluster, topics, partial(feed, cluster), (13, 31), batch_records=7)
        feed(cluster, low, 60)
        cluster.await_frontier([f"dsms.{p}{name}" for name in ("AskdPrice", "Recent", "Met")], 61)
        expected = averages()
        printed = [("+", {"sellerID": who, "avg_price": pytest.approx(price)}, at) for who, price, at in expected]
        assert records(cluster, "AskdPrice") == printed
        first = {who: at for who, _, at in reversed(expected)}
        assert records(cluster, "Recent") == [
            ("+" if at == first[who] else "u", {"sellerID": who, "price": pytest.approx(price)}, at)
            for who, price, at in expected
        ]
        met = [[price for who, price, at in expected if who == seller and at <= then][-1] for seller, then in VISITS]
        assert records(cluster, "Met") == [
            ("+", {"sellerID": seller, "at": then, "price": pytest.approx(price)}, then)
            for (seller, then), price in zip(VISITS, met, strict=True)
        ]
        rows = cluster.sql(f"SELECT sellerID, price FROM {p}Recent ORDER BY sellerID")[0]["rows"]
        last = {who: price for who, price, _ in expected}
        assert rows == [["ann", pytest.approx(last["ann"])], ["bob", pytest.approx(last["bob"])]]
        cluster.sql(f"DROP STREAM {p}Met; DROP TABLE {p}Recent")
        assert not [query for query in cluster.get("queries") if query["name"] == f"{p}Recent_insert"]
