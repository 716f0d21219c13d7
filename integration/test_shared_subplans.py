"""Two executors share the operators of several queries through links, although both are killed in between, and a query
moves from one to the other."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import polars as pl
import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import internal_topic
from connectors.kafka.client.topics import partition_counts
from dsms.local.process import ManagedProcess
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import Input, advance, changes, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
BIDS, AUCTIONS, LAST = 3_000, 40, 1_000
JOIN = "SELECT B.auction, B.price, S.seller FROM {p}B AS B JOIN {p}S AS S ON B.auction = S.auction"
#: Each query with the fragment that runs it: the join runs in fragment 0, and the groups over it in fragment 1.
QUERIES = {
    "pairs": ("0", JOIN),
    "sellers": ("1", f"SELECT seller, COUNT(*) AS n, MAX(price) AS m FROM ({JOIN}) GROUP BY seller"),
    "auctions": ("0", f"SELECT auction, COUNT(*) AS n FROM ({JOIN}) GROUP BY auction"),
    "sizes": ("0", f"SELECT n, COUNT(*) AS c FROM (SELECT seller, COUNT(*) AS n, MAX(price) AS m FROM ({JOIN}) "
                   "GROUP BY seller) GROUP BY n"),
}  # fmt: skip


def begin(
    cluster: Cluster, queries: Mapping[str, tuple[str, str]], batch_records: tuple[int, int]
) -> tuple[ManagedProcess, ManagedProcess, list[str]]:
    """Starts executor "one", which gets fragment 0, and "two", which gets fragment 1; creates the views, and writes the
    first records. Returns the executors, and the topics of the views."""
    one = cluster.start_executor("one", batch_records=batch_records[0])
    cluster.await_fragments({"one": ["0", "1"]})
    two = cluster.start_executor("two", batch_records=batch_records[1])
    cluster.await_fragments({"one": ["0"], "two": ["1"]})
    declare(cluster, queries)
    feed(cluster, 0, 300)
    return one, two, [f"dsms.{cluster.name}{name}" for name in queries]


def declare(cluster: Cluster, queries: Mapping[str, tuple[str, str]]) -> None:
    """Creates the sources, and views in their fragments."""
    prefix = cluster.name
    cluster.sql(f"""
        REGISTER SOURCE {prefix}TB (auction INT, price INT) FROM "{prefix}.bids" PARTITIONS 2;
        REGISTER SOURCE {prefix}TS (auction INT, seller INT) FROM "{prefix}.auctions" PARTITIONS 2;
        CREATE STREAM {prefix}B OVER {prefix}TB KEY NULL; CREATE STREAM {prefix}S OVER {prefix}TS KEY NULL
    """)
    for name, (fragment, text) in queries.items():
        selected = text.format(p=prefix).replace("SELECT", "SELECT STREAMED", 1)
        cluster.sql(f"CREATE VIEW {prefix}{name} WITH (fragment = '{fragment}', partitions = 1) AS {selected}")


def feed(cluster: Cluster, first: int, last: int) -> None:
    """Writes the records of the instants from `first` to `last`."""
    bids, auctions = records()
    for topic, rows in (("bids", bids), ("auctions", auctions)):
        inputs = [_input(row) for row in rows if first <= row["at"] <= last]
        write(cluster.kafka, f"{cluster.name}.{topic}", inputs)


def _input(row: dict[str, int]) -> Input:
    columns = {name: value for name, value in row.items() if name != "at"}
    return Input(json.dumps(columns).encode(), row["at"], row["auction"] % 2)


def records() -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    chance = random.Random(3)
    auctions = [{"auction": at, "seller": chance.randrange(7), "at": 1 + 20 * at} for at in range(AUCTIONS)]
    bids = [
        {"auction": chance.randrange(AUCTIONS), "price": chance.randrange(100), "at": 1 + at * LAST // BIDS}
        for at in range(BIDS)
    ]
    return bids, auctions


def await_end(cluster: Cluster, topics: list[str]) -> None:
    """Advances the sources beyond their last records, and waits until all results are published."""
    for topic in ("bids", "auctions"):
        advance(cluster.kafka, f"{cluster.name}.{topic}", 2 * LAST, partitions=2)
    cluster.await_frontier(topics, LAST + 1)


def relations(cluster: Cluster, queries: Iterable[str]) -> dict[str, Counter[str]]:
    """The rows of each result, summed up from its changes."""
    return {name: _relation(cluster, name) for name in queries}


def _relation(cluster: Cluster, name: str) -> Counter[str]:
    rows: dict[bytes | None, Counter[str]] = {}
    bag: Counter[str] = Counter()
    for change in changes(cluster.kafka, f"dsms.{cluster.name}{name}"):
        if change.key is None:
            bag[_row(change.value)] += -1 if change.op == "-" else 1
        else:
            rows[change.key] = Counter() if change.value is None or change.op == "-" else Counter([_row(change.value)])
    return sum(rows.values(), +bag)


def _row(value: bytes | None) -> str:
    return json.dumps(list(json.loads(value or b"{}").values()))


def expected(queries: Mapping[str, tuple[str, str]]) -> dict[str, Counter[str]]:
    """The final rows of each query, by DuckDB."""
    bids, auctions = (pl.DataFrame(rows) for rows in records())
    with duckdb.connect() as connection:
        connection.register("bids", bids.to_arrow())
        connection.register("auctions", auctions.to_arrow())
        texts = {
            name: text.replace("{p}B AS B", "bids AS B").replace("{p}S AS S", "auctions AS S")
            for name, (_, text) in queries.items()
        }
        return {
            name: Counter(json.dumps(list(row)) for row in connection.sql(text).fetchall())
            for name, text in texts.items()
        }


def links(cluster: Cluster) -> set[str]:
    begins = internal_topic(cluster.name, "subplan.")
    return {topic for topic in partition_counts(KafkaSettings(cluster.kafka).admin()) if topic.startswith(begins)}


def test_two_executors_share_operators_and_are_killed(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path, fragments=2) as cluster:
        one, two, topics = begin(cluster, QUERIES, (500, 300))
        cluster.await_progress(topics[1:2], 100)
        (moved,) = cluster.sql(f"ALTER VIEW {cluster.name}auctions SET (fragment = '1')")
        assert "fragment 1, reads shared subplans" in moved["message"]
        kill_9(one)
        feed(cluster, 301, 600)
        one = cluster.start_executor("one", batch_records=500)
        cluster.await_progress(topics[1:2], 400)
        kill_9(two)
        two = cluster.start_executor("two", batch_records=300)
        feed(cluster, 601, LAST)
        await_end(cluster, topics)
        assert relations(cluster, QUERIES) == expected(QUERIES)

        assert_shared(cluster)
        names = [f"{cluster.name}{name}" for name in QUERIES]
        cluster.sql("; ".join(f"DROP VIEW {name}" for name in names))
        assert wait_until(lambda: not links(cluster), 120), links(cluster)


def assert_shared(cluster: Cluster) -> None:
    """Each operator with state runs once in the cluster, and statements show where."""
    assert wait_until(lambda: kinds(cluster)["Join"] == 1 and kinds(cluster)["GroupBy"] == 3, 120), kinds(cluster)
    assert len(links(cluster)) == 2
    (shown,) = cluster.sql("SHOW SUBPLANS")
    by_fragment = {(row[0], row[1]) for row in shown["rows"]}
    assert by_fragment == {("0", "one"), ("1", "two")}
    (join,) = [row for row in shown["rows"] if "Join" in row[2]]
    assert join[0] == "0"
    assert all(f"{cluster.name}{name}" in join[3] for name in QUERIES)
    assert join[-1] == "computed once for queries of fragments 0, 1"
    sent = {row[0]: row[8] for row in shown["rows"] if row[7]}
    assert sent.keys() == {"0", "1"} and min(sent.values()) > 0
    (described,) = cluster.sql(f"DESCRIBE {cluster.name}sellers")
    assert "fragment 1, reads shared subplans" in described["message"]


def kinds(cluster: Cluster) -> Counter[str]:
    (shown,) = cluster.sql("SHOW OPERATORS")
    return Counter(row[1] for row in shown["rows"])
