"""The state of aggregates in Python through Kafka and Spark: kill -9 changes no record."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from integration.cluster import Cluster, feed_and_crash, running
from integration.kafka_log import Change, Input, advance, changes_of, write

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]
OBJECTS = """
CREATE STREAM {p}Bid (item INT, price DOUBLE, at BIGINT) ORDER BY at SOURCE '{p}bids' PARTITIONS 1 IDLE NEVER;
CREATE AGGREGATE {p}middle(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON HANDLER 'Middle' AS $$
from bisect import insort
from statistics import median

class Middle:
    def initialise(self, x):
        self.values = [x]
    def iterate(self, x):
        insort(self.values, x)
    def expire(self, x):
        self.values.remove(x)
    def terminate(self):
        return median(self.values)
$$;
CREATE AGGREGATE {p}spread(x DOUBLE) RETURNS (low DOUBLE, high DOUBLE) LANGUAGE PYTHON HANDLER 'Spread' AS $$
class Spread:
    def __init__(self):
        self.low, self.high = float("inf"), float("-inf")
    def iterate(self, x):
        self.low, self.high = min(self.low, x), max(self.high, x)
    def iterate_arrays(self, xs):
        self.low, self.high = min(self.low, *xs.to_pylist()), max(self.high, *xs.to_pylist())
    def terminate(self):
        return {{"low": self.low, "high": self.high}}
$$;
CREATE AGGREGATE {p}rises(x DOUBLE) RETURNS BIGINT LANGUAGE PYTHON HANDLER 'Rises' AS $$
class Rises:
    def __init__(self):
        self.count, self.last = 0, None
    def iterate(self, x):
        risen = self.last is not None and x > self.last
        self.count, self.last = self.count + risen, x
        return self.count if risen else None
$$
"""
QUERIES = {
    "typical": "SELECT item, {p}middle(price) AS v FROM R({p}Bid) GROUP BY item",
    "smooth": "SELECT item, {p}middle(price) OVER (PARTITION BY item ROWS 4 PRECEDING) AS v FROM {p}Bid",
    "recent": "SELECT item, {p}middle(price) OVER (PARTITION BY item RANGE 9 PRECEDING) AS v FROM {p}Bid",
    "bounds": "SELECT item, {p}spread(price) AS v FROM R({p}Bid) GROUP BY item",
    "near": "SELECT item, {p}spread(price) OVER (PARTITION BY item ROWS 4 PRECEDING) AS v FROM {p}Bid",
    "rising": "SELECT item, {p}rises(price) AS v FROM {p}Bid GROUP BY item",
}
BIDS = [(7 + at % 2, float(at * 37 % 101), at) for at in range(1, 91)]


def feed(cluster: Cluster, low: int, high: int) -> None:
    """Writes the bids at instants above `low`, up to `high`."""
    rows = [dict(zip(("item", "price", "at"), bid, strict=True)) for bid in BIDS[low:high]]
    write(cluster.kafka, f"{cluster.name}bids", [Input(json.dumps(row).encode(), int(row["at"])) for row in rows])
    advance(cluster.kafka, f"{cluster.name}bids", high + 1)


def create(cluster: Cluster, kind: str) -> list[str]:
    """Creates the queries; returns their topics."""
    p = cluster.name
    for name, text in QUERIES.items():
        # not shared: otherwise they would share the state of the other queries
        cluster.sql(f"CREATE QUERY {p}{kind}_{name} WITH (shared = false) AS {text.format(p=p)}")
    return [f"dsms.{p}{kind}_{name}" for name in QUERIES]


def values(found: list[Change]) -> dict[int, list[tuple[object, int]]]:
    """The results of each item, with their instants."""
    by_item = defaultdict(list)
    for change in found:
        row = json.loads(change.value or b"")
        by_item[row["item"]].append((row["v"], change.ts))
    return by_item


def prices(item: int) -> list[tuple[float, int]]:
    """The bids for an item."""
    return [(price, at) for of, price, at in BIDS if of == item]


def test_a_crash_changes_no_record(kafka: str, redis_url: str, tmp_path: Path) -> None:
    with running(kafka, redis_url, tmp_path) as cluster:
        cluster.sql(OBJECTS.format(p=cluster.name))
        crashed = create(cluster, "crashed")
        low = feed_and_crash(cluster, crashed, partial(feed, cluster), (24, 57), batch_records=11)
        feed(cluster, low, len(BIDS))
        undisturbed = create(cluster, "undisturbed")
        cluster.await_frontier([*crashed, *undisturbed], len(BIDS) + 1)
        records = changes_of(kafka, [*crashed, *undisturbed])
        for before, after in zip(crashed, undisturbed, strict=True):
            assert records[before], before
            assert records[before] == records[after], before
        found = {name: values(records[topic]) for name, topic in zip(QUERIES, crashed, strict=True)}
        for item in (7, 8):
            bids = prices(item)
            assert found["typical"][item] == [
                (median(p for p, _ in bids[: n + 1]), at) for n, (_, at) in enumerate(bids)
            ]
            last = [[p for p, _ in bids[max(0, n - 4) : n + 1]] for n in range(len(bids))]
            assert found["near"][item] == [
                ({"low": min(five), "high": max(five)}, at) for five, (_, at) in zip(last, bids, strict=True)
            ]
            risen = [at for (old, _), (new, at) in zip(bids, bids[1:], strict=False) if new > old]
            assert found["rising"][item] == [(count, at) for count, at in enumerate(risen, 1)]
