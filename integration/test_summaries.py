"""Summaries and SELECTs with a preference through Kafka and Spark, with kill -9 between zones and within one."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from integration.cluster import Cluster, feed_and_crash, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
END = 1_200
AUCTIONS = np.random.default_rng(5).zipf(1.4, END * 5).clip(max=200).tolist()
BIDS = [{"auction": auction, "price": at % 89, "at": at // 5} for at, auction in enumerate(AUCTIONS)]


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory):
    with running(kafka, redis_url, tmp_path_factory.mktemp("summaries")) as cluster:
        cluster.sql(
            f"""CREATE STREAM Bid (auction INT, price INT, at BIGINT) ORDER BY at SOURCE '{cluster.name}bids'
                PARTITIONS 1 IDLE NEVER;
            CREATE SUMMARY ByAuction ON Bid (auction) WITH GRANULARITY 100 AND COLLAPSE(4, 3) AND BUCKETS 8"""
        )
        topic = f"{cluster.name}bids"

        def feed(low: int, high: int) -> None:
            rows = [json.dumps(row).encode() for row in BIDS if low <= row["at"] < high]
            write(cluster.kafka, topic, [Input(row, 0) for row in rows])
            advance(cluster.kafka, topic, high)

        last = feed_and_crash(cluster, [cluster.topic("ByAuction")], feed, [130, 470, 700], batch_records=300)
        feed(last, END)
        cluster.await_frontier(cluster.topic("ByAuction"), END)
        yield cluster


def closed(cluster: Cluster) -> int:
    """The instant up to which zones are closed."""
    (result,) = cluster.sql("SELECT MAX(zone_to) AS until FROM ByAuction")
    return int(result["rows"][0][0])


def test_the_answer_over_everything_is_exact(cluster: Cluster) -> None:
    until = closed(cluster)
    assert END - 2 * 13 <= until <= END
    wanted = Counter(row["auction"] for row in BIDS if row["at"] < until)
    (result,) = cluster.sql(
        "SELECT auction, COUNT(*) AS n FROM Bid GROUP BY auction WITH PREFERENCE DESC COUNT(auction)"
    )
    assert {auction: count for auction, count in result["rows"]} == dict(wanted)
    total = wanted.total()
    assert result["notices"][0].startswith(f'"Bid": {total} of {total} tuples in ')


def test_answer_within_a_budget_reports_the_tuples_read(cluster: Cluster) -> None:
    (result,) = cluster.sql("SELECT COUNT(*) AS n FROM Bid WITH PREFERENCE ASC COUNT(auction) BUDGET 1 MILLISECOND")
    (seen,) = result["rows"][0]
    assert 1_000 <= seen < 2_500
    assert result["notices"][0].startswith(f'"Bid": {seen} of ')


def test_no_change_of_a_cell_is_published_twice_or_lost(cluster: Cluster) -> None:
    """Each cell is inserted once, and is either removed once or stays."""
    alive: Counter = Counter()
    entered: Counter = Counter()
    for change in changes(cluster.kafka, cluster.topic("ByAuction")):
        body = json.loads((change.value if change.value is not None else change.key) or b"")
        cell = tuple(body[name] for name in ("granularity", "zone_from", "bucket", "frequency", "part"))
        alive[cell] += 1 if change.op == "+" else -1
        entered[cell] += change.op == "+"
        assert change.op in "+-"
    assert set(entered.values()) == {1}
    assert set(alive.values()) == {0, 1}


def test_a_join_reads_the_tuples_of_both_streams(cluster: Cluster) -> None:
    """The result topics of the summaries are compacted, and one summary is ahead of the other."""
    cluster.sql(
        f"""CREATE STREAM Auction (id INT, seller INT, at BIGINT) ORDER BY at SOURCE '{cluster.name}auctions'
            PARTITIONS 1 IDLE NEVER;
        CREATE SUMMARY ById ON Auction (id) WITH GRANULARITY 100 AND COLLAPSE(4, 3) AND BUCKETS 8"""
    )
    rows = [json.dumps({"id": at % 200, "seller": at % 7, "at": at}).encode() for at in range(END - 200)]
    write(cluster.kafka, f"{cluster.name}auctions", [Input(row, 0) for row in rows])
    advance(cluster.kafka, f"{cluster.name}auctions", END - 150)
    cluster.await_frontier(cluster.topic("ById"), END - 150)
    (result,) = cluster.sql(
        "SELECT seller, COUNT(*) AS n FROM Bid b JOIN Auction a ON b.auction = a.id GROUP BY seller"
        " WITH PREFERENCE COUNT(b.auction), COUNT(a.id)"
    )
    assert {row[0] for row in result["rows"]} == set(range(7)), result
