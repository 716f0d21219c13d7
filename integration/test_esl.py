"""ESL's aggregates through Kafka and Spark: the paper's examples, with kill -9 in the middle of a window."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from dsms.local.waiting import wait_until
from dsms.testing import LocalSession
from integration.cluster import Cluster, feed_and_crash, running
from integration.kafka_log import Input, advance, changes, write
from tests.papers import esl_aggregates as paper

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
AGGREGATES = [
    paper.EXAMPLE_7, paper.EXAMPLE_8, paper.EXAMPLE_10, paper.EXAMPLE_12, paper.EXAMPLE_13, paper.EXAMPLE_17,
    paper.ITEM_ALARM, paper.EXAMPLE_11.replace("AGGREGATE avg(", "AGGREGATE window_avg("),
    paper.EXAMPLE_16.replace("max (", "leaving_max ("),
]  # fmt: skip
STREAMS = """
    CREATE STREAM {p}Bid (itemID INT, price REAL, at BIGINT) ORDER BY at SOURCE '{p}bids' PARTITIONS 1 IDLE NEVER;
    CREATE STREAM {p}tags (tagid char(10), tagtype char(10), tagtime timestamp) ORDER BY tagtime
        SOURCE '{p}tags_in' PARTITIONS 1 IDLE NEVER
"""
#: Queries over the stream of bids.
QUERIES = {
    "decay": "SELECT decay_online_avg(price) AS v FROM {p}Bid",
    # example 9
    "decayby": "SELECT itemID, decay_online_avg(price) AS v FROM {p}Bid GROUP BY itemID",
    "mean": "SELECT itemID, avg(price) AS v FROM R({p}Bid) GROUP BY itemID",
    "cum": "SELECT itemID, cum_avg(price) AS v FROM {p}Bid GROUP BY itemID",
    "derived": "SELECT itemID, avg(price) OVER (PARTITION BY itemID ROWS 6 PRECEDING) AS v FROM {p}Bid",
    "delta": "SELECT itemID, myavg(price) OVER (PARTITION BY itemID RANGE 9 PRECEDING) AS v FROM {p}Bid",
    "top": "SELECT itemID, max(price) OVER (PARTITION BY itemID ROWS 6 PRECEDING) AS v FROM {p}Bid",
    "slide": "SELECT itemID, sum(price) OVER (PARTITION BY itemID ROWS 49 PRECEDING SLIDE 10) AS v FROM {p}Bid",
    "scanned": "SELECT itemID, window_avg(price) OVER (PARTITION BY itemID ROWS 6 PRECEDING) AS v FROM {p}Bid",
    "leaving": "SELECT itemID, leaving_max(price) OVER (PARTITION BY itemID RANGE 9 PRECEDING) AS v FROM {p}Bid",
    # example 15: the panes of `slide`
    "temp": "SELECT itemID, sum(price) OVER (PARTITION BY itemID ROWS 9 PRECEDING SLIDE 10) AS s FROM {p}Bid",
    "panes": "SELECT itemID, sum(s) OVER (PARTITION BY itemID ROWS 4 PRECEDING) AS v FROM {p}temp",
    "active": "SELECT itemID, avg(price) OVER (PARTITION BY itemID RANGE 9 PRECEDING ACTIVE EXPIRATION) AS v"
    " FROM {p}Bid",
}
TAGS = {
    "groups": "SELECT tagid, product_group(tagtime) OVER (RANGE UNBOUNDED PRECEDING) AS v FROM {p}tags",
    "larceny": "SELECT tagid, item_alarm(tagid, tagtype, tagtime) OVER (RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION)"
    " AS v FROM {p}tags",
}
BIDS = [{"itemID": 7 + at % 2, "price": float(at * 37 % 101), "at": at} for at in range(1, 131)]
READINGS = [
    {"tagid": tag, "tagtype": kind, "tagtime": f"1970-01-01T00:00:{at:02}Z"} for at, tag, kind in paper.READINGS
]
Result = list[tuple[str, dict[str, object], int]]


def statements(prefix: str) -> list[str]:
    views = [f"CREATE STREAMED VIEW {prefix}{name} AS {text}" for name, text in {**QUERIES, **TAGS}.items()]
    return [text.format(p=prefix) for text in (*AGGREGATES[:0], STREAMS, *views)]


@pytest.fixture(scope="module")
def expected() -> dict[str, Result]:
    """The results of the in-process session, which `tests/papers` compares with results computed by hand."""
    session = LocalSession()
    for text in (*AGGREGATES, *statements("")):
        session.execute(text)
    session.push("Bid_source", BIDS)
    session.push("tags_source", READINGS)
    session.advance(100_000)
    return {name: sorted(session.changes(name), key=repr) for name in (*QUERIES, *TAGS)}


def published(cluster: Cluster, name: str) -> Result:
    found = []
    for change in changes(cluster.kafka, f"dsms.{cluster.name}{name}"):
        body = change.value if change.value is not None else change.key
        found.append((change.op, json.loads(body or b""), change.ts))
    return sorted(found, key=repr)


def feed(cluster: Cluster, low: int, high: int) -> None:
    """Writes the bids from `low` to `high`, and the same fraction of the readings."""
    rows = BIDS[low:high]
    write(cluster.kafka, f"{cluster.name}bids", [Input(json.dumps(row).encode(), int(str(row["at"]))) for row in rows])
    advance(cluster.kafka, f"{cluster.name}bids", high + 1)
    tenth = len(READINGS) * low // len(BIDS), len(READINGS) * high // len(BIDS)
    read = READINGS[tenth[0] : tenth[1]]
    write(cluster.kafka, f"{cluster.name}tags_in", [Input(json.dumps(row).encode(), 0) for row in read])


def test_the_examples_survive_a_crash_in_the_middle_of_a_window(
    kafka: str, redis_url: str, tmp_path: Path, expected: dict[str, Result]
):
    with running(kafka, redis_url, tmp_path) as cluster:
        for text in (*AGGREGATES, *statements(cluster.name)):
            cluster.sql(text)
        topics = [f"dsms.{cluster.name}{name}" for name in QUERIES]
        low = feed_and_crash(cluster, topics, partial(feed, cluster), (33, 77), batch_records=20)
        feed(cluster, low, len(BIDS))
        for topic in ("bids", "tags_in"):
            advance(cluster.kafka, f"{cluster.name}{topic}", 100_000)
        cluster.await_frontier([*topics, *(f"dsms.{cluster.name}{name}" for name in TAGS)], 100_000)
        for name, result in expected.items():
            assert result, name
            assert published(cluster, name) == result, name
        assert expected["panes"] == expected["slide"]
        taken = [(row["tagid"], ts) for _, row, ts in expected["larceny"]]
        assert sorted(taken) == sorted((tag, at * 1000 + 1) for tag, at in paper.ALARMS)


ENDLESS = """
CREATE AGGREGATE endless(x INT): INT {
  TABLE state(n BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (x); }
  ITERATE: { UPDATE state SET n = n + 1; }
  TERMINATE: {
    WHILE (SELECT n FROM state) > 0 { UPDATE state SET n = 1; }
  }
}
"""


def test_endless_aggregate_body_stops_only_its_query(kafka: str, redis_url: str, tmp_path: Path):
    with running(kafka, redis_url, tmp_path) as cluster:
        p = cluster.name
        cluster.sql(f"CREATE STREAM {p}S (x INT, at BIGINT) ORDER BY at SOURCE '{p}s' PARTITIONS 1 IDLE NEVER")
        cluster.sql(ENDLESS)
        cluster.sql(f"CREATE STREAMED VIEW {p}bad AS SELECT endless(x) AS v FROM R({p}S)")
        cluster.sql(f"CREATE STREAMED VIEW {p}good AS SELECT sum(x) AS v FROM R({p}S)")
        cluster.start_executor()
        write(kafka, f"{p}s", [Input(b'{"x": 1, "at": 1}', 1)])
        advance(kafka, f"{p}s", 10)
        cluster.await_frontier(f"dsms.{p}good", 10)
        assert wait_until(lambda: "endless" in cluster.get(f"queries/{p}bad")["state"], 120), cluster.logs()
        state = cluster.get(f"queries/{p}bad")["state"]
        assert "its loops take too many steps" in state and "line 6" in state
