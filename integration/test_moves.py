"""A query moves between two executors with its state, while records arrive and both are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import advance
from integration.test_shared_subplans import LAST, expected, feed, relation_of

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
#: Queries that share nothing with each other.
QUERIES = {
    "pairs": "SELECT B.auction, B.price, S.seller FROM {p}B AS B JOIN {p}S AS S ON B.auction = S.auction",
    "groups": "SELECT auction, COUNT(*) AS n, MIN(price) AS m FROM {p}B AS B GROUP BY auction",
}


def declare(cluster: Cluster) -> None:
    """Creates the queries in fragment 0."""
    prefix = cluster.name
    cluster.sql(f"""
        REGISTER SOURCE {prefix}TB (auction INT, price INT) FROM "{prefix}.bids" PARTITIONS 2;
        REGISTER SOURCE {prefix}TS (auction INT, seller INT) FROM "{prefix}.auctions" PARTITIONS 2;
        CREATE STREAM {prefix}B OVER {prefix}TB KEY NULL; CREATE STREAM {prefix}S OVER {prefix}TS KEY NULL
    """)
    for name, text in QUERIES.items():
        selected = text.format(p=prefix).replace("SELECT", "SELECT STREAMED", 1)
        cluster.sql(f"CREATE VIEW {prefix}{name} WITH (fragment = '0', partitions = 1) AS {selected}")


def move(cluster: Cluster, name: str, fragment: str) -> None:
    cluster.sql(f"ALTER VIEW {cluster.name}{name} SET (fragment = '{fragment}')")


def await_taken_over(cluster: Cluster, fragment: str, names: list[str]) -> None:
    """Waits until the story of a fragment says that it has taken over the state of queries."""
    wanted = {f"{cluster.name}{name}" for name in names}

    def taken_over() -> set[str]:
        events = cluster.get(f"fragments/{fragment}/story")
        moved = [event for event in events if event["event"] == "state taken over"]
        return {query for event in moved for query in event["queries"]}

    assert wait_until(lambda: wanted <= taken_over(), 60), cluster.get(f"fragments/{fragment}/story")


def test_queries_move_with_their_state(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        one = cluster.start_executor("one", batch_records=300)
        cluster.await_fragments({"one": ["0", "1"]})
        two = cluster.start_executor("two", batch_records=300)
        cluster.await_fragments({"one": ["0"], "two": ["1"]})
        declare(cluster)
        topics = [f"dsms.{cluster.name}{name}" for name in QUERIES]
        feed(cluster, 0, 300)
        cluster.await_progress(topics, 200)
        move(cluster, "groups", "1")
        await_taken_over(cluster, "1", ["groups"])
        move(cluster, "pairs", "1")
        kill_9(one)
        feed(cluster, 301, 600)
        one = cluster.start_executor("one", batch_records=300)
        cluster.await_progress(topics, 400)
        await_taken_over(cluster, "1", ["pairs"])
        move(cluster, "groups", "0")
        kill_9(two)
        feed(cluster, 601, LAST)
        two = cluster.start_executor("two", batch_records=300)
        for topic in ("bids", "auctions"):
            advance(kafka, f"{cluster.name}.{topic}", 2 * LAST, partitions=2)
        cluster.await_frontier(topics, LAST + 1)
        assert {name: relation_of(cluster, name) for name in QUERIES} == expected(QUERIES)
        await_taken_over(cluster, "0", ["groups"])
