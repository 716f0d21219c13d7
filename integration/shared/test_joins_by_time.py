"""Joins by time, final results and hidden instants over real Kafka, Redis and Spark, in Avro, compared with DuckDB."""

import time
from dataclasses import dataclass

import duckdb
import polars as pl
import pytest

from benchmarks.nexmark.answers import decoded, final_values
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.load import final_ms, load_tagged
from benchmarks.nexmark.reference import verify
from benchmarks.nexmark.streams import AUCTION, BID, STREAMS
from benchmarks.nexmark.timeline import Timeline
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.schema_registry.registry import schema_lookup
from integration.cluster import Cluster, Refused
from integration.kafka_log import changes

pytestmark = pytest.mark.services

#: 30 seconds of event time.
EVENTS = Events(6_000, Timeline(rate=200), seed=17)
OPTIONS = 'FORMAT AVRO TIMESTAMP BY "dateTime" TAGGED NONE IDLE NEVER'
PREFIX = "bytime."
PREFIX_BYTES = 5
DEADLINE_S = 120.0
#: A stream whose rows do not contain the column of their instants.
UNSTAMPED = f"""CREATE STREAM Unstamped (auction BIGINT, price BIGINT, "dateTime" TIMESTAMP)
    SOURCE '{PREFIX}bid' ORDERED BY "dateTime" FORMAT AVRO TAGGED NONE IDLE NEVER"""
WINDOWS = "TUMBLE(TABLE Bid, DESCRIPTOR(TS), INTERVAL '4' SECOND)"


@dataclass(frozen=True)
class QueryPair:
    """A query, and the same in DuckDB's SQL."""

    ours: str
    duck: str


QUERIES = {
    # many bids have the same second: the partner is the least of them, compared by all columns
    "asof": QueryPair(
        """SELECT A.id, B.price, B.bidder, B."dateTime" AS at FROM Auction A ASOF LEFT JOIN Bid B
            ON A.id = B.auction AND A."dateTime" <= DATE_TRUNC('second', B."dateTime")""",
        """SELECT A.id, B.price, B.bidder, B.at FROM Auction A LEFT JOIN LATERAL (
            SELECT price, bidder, "dateTime" AS at FROM Bid B
            WHERE B.auction = A.id AND date_trunc('second', B."dateTime") >= A."dateTime"
            ORDER BY date_trunc('second', B."dateTime"), bidder, price, channel, url, "dateTime", extra LIMIT 1
        ) B ON TRUE""",
    ),
    "band": QueryPair(
        """SELECT A.id, B.bidder, B.price, B."dateTime" AS at FROM Bid B JOIN Auction A ON B.auction = A.id
            AND B."dateTime" BETWEEN A."dateTime" AND A."dateTime" + INTERVAL '1990' MILLISECOND""",
        """SELECT A.id, B.bidder, B.price, B."dateTime" AS at FROM Bid B, Auction A
            WHERE B.auction = A.id AND epoch_ms(B."dateTime") - epoch_ms(A."dateTime") BETWEEN 0 AND 1990""",
    ),
    "unequal": QueryPair(
        """SELECT P.id, A.id AS auction, A.seller FROM Person P LEFT JOIN Auction A
            ON A.seller <> P.id AND A."dateTime" > P."dateTime" - INTERVAL '985' MILLISECOND
            AND A."dateTime" <= P."dateTime" """,
        """SELECT P.id, A.id AS auction, A.seller FROM Person P LEFT JOIN Auction A
            ON A.seller <> P.id AND epoch_ms(P."dateTime") - epoch_ms(A."dateTime") BETWEEN 0 AND 984""",
    ),
    "ended": QueryPair(
        f"""SELECT auction, window_end, COUNT(*) AS bids, MAX(price) AS top FROM {WINDOWS}
            GROUP BY auction, window_start, window_end HAVING COUNT(*) > 1 EMIT FINAL""",
        """SELECT auction, (epoch_ms("dateTime") // 4000 + 1) * 4000 AS window_end, COUNT(*) AS bids, MAX(price) AS top
            FROM Bid GROUP BY ALL HAVING COUNT(*) > 1""",
    ),
    "hidden": QueryPair(
        "SELECT *, TS AS at FROM Unstamped WHERE price % 10 = 3",
        """SELECT auction, price, epoch_ms("dateTime") AS at FROM Bid WHERE price % 10 = 3""",
    ),
}


@pytest.fixture(scope="module")
def cluster(shared: Cluster) -> Cluster:
    load_tagged(KafkaSettings(shared.kafka), shared.url, EVENTS, PREFIX)
    for stream in STREAMS.values():
        shared.sql(stream.declaration(PREFIX + stream.topic, "", OPTIONS))
    shared.sql(UNSTAMPED)
    for name, asked in QUERIES.items():
        shared.sql(f"CREATE QUERY {name} WITH (format = avro) AS {asked.ours}")
    return shared


@pytest.fixture(scope="module")
def deadline(cluster: Cluster) -> float:
    """The time by which all queries must be answered."""
    return time.monotonic() + DEADLINE_S


def answer(query: str) -> pl.DataFrame:
    """DuckDB's answer over all events."""
    with duckdb.connect() as database:
        database.execute("PRAGMA disable_optimizer")
        for name, stream in STREAMS.items():
            database.register(name, stream.rows(EVENTS).to_arrow())
        return pl.DataFrame(pl.from_arrow(database.sql(query).to_arrow_table()))


def published(cluster: Cluster, name: str, values: list[bytes], like: pl.DataFrame) -> pl.DataFrame:
    """Avro values as rows."""
    writer = schema_lookup(cluster.url)(int.from_bytes(values[0][1:PREFIX_BYTES], "big"))
    return decoded(values, writer, PREFIX_BYTES, like)


@pytest.mark.parametrize("name", QUERIES)
def test_the_final_relation(cluster: Cluster, deadline: float, name: str) -> None:
    cluster.await_frontier(cluster.topic(name), final_ms(EVENTS), max(deadline - time.monotonic(), 1.0))
    wanted = answer(QUERIES[name].duck)
    assert wanted.height > 100
    values = final_values(KafkaSettings(cluster.kafka), cluster.topic(name))
    verify(published(cluster, name, values, wanted), wanted, name)


def test_ties_and_missing_partners_are_among_the_rows(cluster: Cluster) -> None:
    bids = BID.rows(EVENTS).with_columns(pl.col("dateTime").dt.truncate("1s").alias("second"))
    assert bids.group_by("auction", "second").len()["len"].max() > 1
    assert answer(QUERIES["asof"].duck)["price"].null_count() > 0
    assert answer(QUERIES["unequal"].duck)["auction"].null_count() > 0
    assert answer(QUERIES["asof"].duck).height == AUCTION.rows(EVENTS).height


def test_a_final_result_comes_once_at_the_end_of_its_window(cluster: Cluster, deadline: float) -> None:
    topic = cluster.topic("ended")
    cluster.await_frontier(topic, final_ms(EVENTS), max(deadline - time.monotonic(), 1.0))
    records = changes(cluster.kafka, topic)
    rows = published(cluster, "ended", [record.value for record in records if record.value is not None], pl.DataFrame())
    assert {record.op for record in records} == {"+"}
    assert rows.select("auction", "window_end").is_unique().all()
    assert rows["window_end"].to_list() == [record.ts for record in records]


def test_the_column_of_hidden_instants_is_no_column(cluster: Cluster) -> None:
    with pytest.raises(Refused, match="dateTime"):
        cluster.sql('SELECT STREAMED "dateTime" FROM Unstamped')
