"""The order of joins changes while a query runs on a cluster. Kill -9 hits it while the next plan builds its state."""

from __future__ import annotations

import json

import duckdb
import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, kill_9, log_of, running
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import create_topic

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
NAMES, PARTITIONS, RANGE, CHUNK = "abc", 2, 1_500, 250
STATEMENTS = "".join(
    f"REGISTER SOURCE {{p}}T{name} ({name} INT, v{name} INT) FROM {{p}}{name} IDLE NEVER;"
    f"CREATE STREAM {{p}}S{name} OVER {{p}}T{name} KEY NULL;"
    for name in NAMES
)
QUERY = f"""CREATE QUERY {{p}}Q AS SELECT STREAMED a, COUNT(*) AS n, MAX(vb) AS m FROM {{p}}Sa [RANGE {RANGE}]
    JOIN {{p}}Sb [RANGE {RANGE}] ON a = b JOIN {{p}}Sc [RANGE {RANGE}] ON va = vc GROUP BY a"""


def record(name: str, at: int) -> dict[str, int]:
    return {name: (at * 7 + ord(name)) % 200, f"v{name}": (at * 11 + ord(name)) % 300}


def by_duckdb(count: int, at: int) -> dict[int, tuple[int, int]]:
    """The groups over the contents of the windows at an instant."""
    database = duckdb.connect()
    for name in NAMES:
        rows = [tuple(record(name, instant).values()) for instant in range(max(at - RANGE, 0), min(at + 1, count))]
        database.execute(f"CREATE TABLE {name} ({name} INT, v{name} INT)")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
    found = database.execute("SELECT a, count(*), max(vb) FROM a JOIN b ON a = b JOIN c ON va = vc GROUP BY a")
    return {key: (count, most) for key, count, most in found.fetchall()}


def groups(cluster: Cluster) -> dict[int, tuple[int, int]]:
    """The groups according to the changes so far. Checks that the operation of each change fits the last one of its
    key."""
    rows: dict[int, tuple[int, int]] = {}
    for change in changes(cluster.kafka, f"dsms.{cluster.name}Q"):
        key = json.loads(change.key or b"")["a"]
        assert (key in rows) == (change.op != "+"), change
        if change.value is None:
            del rows[key]
        else:
            value = json.loads(change.value)
            rows[key] = (value["n"], value["m"])
    return rows


def test_the_order_changes_without_a_pause_and_without_a_change_of_results(
    kafka: str, redis_url: str, tmp_path, unique: str
) -> None:
    written = 0
    with running(kafka, redis_url, tmp_path) as cluster:
        for name in NAMES:
            create_topic(kafka, f"{cluster.name}{name}", partitions=PARTITIONS)

        def more() -> None:
            nonlocal written
            for name in NAMES:
                instants = range(written, written + CHUNK)
                rows = [Input(json.dumps(record(name, at)).encode(), at, at % PARTITIONS) for at in instants]
                write(kafka, f"{cluster.name}{name}", rows)
                advance(kafka, f"{cluster.name}{name}", written + CHUNK, PARTITIONS)
            written += CHUNK
            cluster.await_frontier(f"dsms.{cluster.name}Q", written)

        def state() -> str:
            return {row[0]: row[2] for row in cluster.sql("SHOW QUERIES")[0]["rows"]}[f"{cluster.name}Q"]

        cluster.sql(STATEMENTS.format(p=cluster.name) + QUERY.format(p=cluster.name))
        first = cluster.start_executor()
        more()
        more()
        cluster.sql(f"ALTER QUERY {cluster.name}Q SET (join_order = '1, 3, 2')")
        more()
        assert wait_until(lambda: "changing the order of its joins" in state(), 120), (state(), log_of(first))
        second = cluster.start_executor("executor-2")
        kill_9(first)
        more()
        assert "changing the order of its joins" in state()  # it waits for a whole window, across restarts
        assert groups(cluster) == by_duckdb(written, written - 1)
        while written < 3 * CHUNK + RANGE + CHUNK:
            more()
        assert wait_until(lambda: "changing" not in state(), 120), (state(), log_of(second))
        more()
        assert groups(cluster) == by_duckdb(written, written - 1)
        assert "rebuilt" not in log_of(second)
        assert "chosen order" in json.dumps(cluster.sql(f"EXPLAIN {cluster.name}Q"))
