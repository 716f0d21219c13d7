"""WITH RECURSIVE through real Kafka, Redis and Spark, with an executor that is killed between two changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, running
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import TopicFactory

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

STATEMENTS = """
REGISTER SOURCE EdgeSource (c INT, d INT) FROM "{topic}" IDLE NEVER;
CREATE STREAM Edges OVER EdgeSource KEY (c, d);
CREATE STREAMED VIEW Paths AS
    WITH RECURSIVE p (a, b) AS (SELECT c, d FROM Edges UNION SELECT p.a, E.d FROM p JOIN Edges E ON p.b = E.c)
    SELECT a, b FROM p;
CREATE STREAMED VIEW Endless AS
    WITH RECURSIVE n (k) AS (SELECT c FROM Edges UNION SELECT k + 1 FROM n) SELECT k FROM n
"""


def test_paths_are_correct_after_a_kill_and_endless_recursion_stops_only_its_query(
    kafka: str, redis_url: str, topic: TopicFactory, tmp_path: Path
) -> None:
    with running(kafka, redis_url, tmp_path) as cluster:
        edges = topic("edges", partitions=1)
        first = cluster.start_executor()
        cluster.sql(STATEMENTS.format(topic=edges))
        send(kafka, edges, ("+", 1, 2, 1), ("+", 2, 3, 2), ("+", 3, 1, 3))
        advance(kafka, edges, 5)
        cluster.await_frontier(cluster.topic("Paths"), 5)
        every = {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)}
        assert paths(cluster, 4) == every
        assert wait_until(lambda: "1,000 iterations" in failure(cluster), 120), failure(cluster)
        kill_9(first)
        send(kafka, edges, ("-", 2, 3, 6), ("+", 3, 4, 7))
        cluster.start_executor()
        advance(kafka, edges, 10)
        cluster.await_frontier(cluster.topic("Paths"), 10)
        assert paths(cluster, 4) == every
        assert paths(cluster, 6) == {(1, 2), (3, 1), (3, 2)}
        assert paths(cluster, 9) == {(1, 2), (3, 1), (3, 2), (3, 4)}


def send(kafka: str, topic: str, *edges: tuple[str, int, int, int]) -> None:
    records = (Input(json.dumps({"c": c, "d": d}).encode(), at, op=op) for op, c, d, at in edges)
    write(kafka, topic, records)


def paths(cluster: Cluster, at: int) -> set[tuple[int, int]]:
    """The relation at an instant: the key of the result is the row, and the last change of a key says whether the row
    exists."""
    last = {change.key: change for change in changes(cluster.kafka, cluster.topic("Paths")) if change.ts <= at}
    rows = [json.loads(change.value or b"{}") for change in last.values() if change.op != "-"]
    return {(row["a"], row["b"]) for row in rows}


def failure(cluster: Cluster) -> str:
    """The line of SHOW VIEWS for the view whose recursion never ends."""
    return str([row for row in cluster.sql("SHOW VIEWS")[0]["rows"] if row[0] == "Endless"])
