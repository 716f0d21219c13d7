"""CREATE SINK over a real cluster: its processes and the coordinator are killed while it writes, and DuckDB finds each
change once in the targets."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from dsms.local.waiting import wait_until
from integration.cluster import Cluster, Refused, kill_9, running
from integration.kafka_log import Input, advance, changes, write
from tests.support import lake_tables

pytestmark = [pytest.mark.services, pytest.mark.timeout(420)]
ROUNDS, ROWS, DEADLINE_S = 4, 300, 120
EVERY = "WITH (every = 0.2)"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory below which sinks may write."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    environment = {"DSMS_SINKS": str(lake)}
    with running(kafka, redis_url, tmp_path_factory.mktemp("create_sink"), environment=environment) as made:
        made.sql(f"""
            REGISTER SOURCE sunk_sales (shop INT, amount INT) FROM "{made.name}sunk_sales" PARTITIONS 1 TAGGED NONE
                IDLE NEVER;
            CREATE STREAM sunk_sold OVER sunk_sales KEY NULL;
            CREATE STREAMED VIEW sunk AS
                SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sunk_sold GROUP BY shop
        """)
        made.start_executor()
        yield made


def publish(cluster: Cluster, number: int) -> None:
    rows = [{"shop": at % 7, "amount": number * ROWS + at} for at in range(ROWS)]
    write(cluster.kafka, f"{cluster.name}sunk_sales", [Input(json.dumps(row).encode(), number * 10) for row in rows])
    advance(cluster.kafka, f"{cluster.name}sunk_sales", number * 10 + 10)


def processes(cluster: Cluster) -> list[psutil.Process]:
    """The processes of sinks."""
    assert cluster.coordinator.pid is not None
    children = psutil.Process(cluster.coordinator.pid).children()
    return [child for child in children if "dsms.sinks" in command(child)]


def command(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def sinks(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The rows of SHOW SINKS by name."""
    (shown,) = cluster.sql("SHOW SINKS")
    return {row[0]: dict(zip(shown["columns"], row, strict=True)) for row in shown["rows"]}


def takings(cluster: Cluster, view: str) -> list[tuple[int, ...]]:
    return sorted(map(tuple, cluster.get(f"queries/{view}/relation")["rows"]))


def in_sqlite(file: Path, table: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return sorted(connection.execute(f"SELECT shop, n, total FROM {table}"))


def test_each_change_is_kept_once_though_processes_and_coordinator_are_killed(cluster: Cluster, lake: Path) -> None:
    files, delta, database = lake / "changes", lake / "delta", lake / "kept.db"
    cluster.sql(f"CREATE SINK files FROM sunk INTO '{files}' {EVERY}")
    cluster.sql(f"CREATE SINK delta FROM sunk INTO 'delta:{delta}' {EVERY}")
    cluster.sql(f"CREATE SINK database FROM sunk INTO 'sqlite:///{database}' WITH (every = 0.2, table = 'kept')")
    topic = cluster.topic("sunk")
    for number in range(ROUNDS):
        publish(cluster, number)
        assert wait_until(lambda: len(processes(cluster)) == 3, DEADLINE_S), (sinks(cluster), cluster.logs())
        cluster.await_frontier(topic, number * 10 + 10)
        killed = processes(cluster)
        if number == 1:
            kill_9_coordinator(cluster, killed)
        elif number < ROUNDS - 1:
            for process in killed:
                process.kill()
    expected, last = takings(cluster, "sunk"), changes(cluster.kafka, topic)
    every = sorted(((each.op, each.ts, *json.loads(each.value).values()) for each in last if each.value), key=str)
    kept = [
        (lambda: lake_tables.rows(sorted(map(str, files.glob("*.parquet")))), every),
        (lambda: lake_tables.rows(lake_tables.delta_files(delta)), expected),
        (lambda: in_sqlite(database, "kept"), expected),
    ]
    assert len(expected) == 7 and len(every) > len(expected)
    for read, wanted in kept:
        assert wait_until(lambda read=read, wanted=wanted: read() == wanted, DEADLINE_S), (read(), sinks(cluster))
    assert wait_until(lambda: all(map(is_shown, sinks(cluster).values())), 30), sinks(cluster)


def is_shown(row: dict[str, Any]) -> bool:
    """Whether a sink runs, and is shown with its position."""
    return (row["state"], row["result"]) == ("running", "sunk") and bool(row["position"] and row["written"])


def kill_9_coordinator(cluster: Cluster, children: list[psutil.Process]) -> None:
    """Kills only the coordinator, waits until the kernel has ended its children, and starts it again."""
    kill_9(cluster.coordinator)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive
    cluster.coordinator.start()


def test_a_sink_follows_its_result_until_it_is_dropped(cluster: Cluster, lake: Path) -> None:
    cluster.sql(
        "CREATE STREAMED VIEW sunk_later AS SELECT shop, MAX(amount) AS n, 0 AS total FROM sunk_sold GROUP BY shop"
    )
    cluster.sql(f"CREATE SINK later FROM sunk_later INTO 'sqlite:///{lake / 'later.db'}' {EVERY}")
    assert wait_until(lambda: sinks(cluster)["later"]["state"] == "running", DEADLINE_S), sinks(cluster)
    cluster.sql("ALTER VIEW sunk_later RENAME TO sunk_max")
    publish(cluster, ROUNDS)
    cluster.await_frontier(cluster.topic("sunk_max"), ROUNDS * 10 + 10)
    expected = takings(cluster, "sunk_max")
    kept = "sunk_later"  # the table keeps its name
    assert wait_until(lambda: in_sqlite(lake / "later.db", kept) == expected, DEADLINE_S), sinks(cluster)
    with pytest.raises(Refused, match="is used by sink later"):
        cluster.sql("DROP VIEW sunk_max")
    before = len(processes(cluster))
    cluster.sql("DROP SINK later")
    assert wait_until(lambda: len(processes(cluster)) == before - 1, 30)
    assert in_sqlite(lake / "later.db", kept) == expected


def test_a_sink_whose_position_is_gone_says_so_and_restarts(cluster: Cluster, lake: Path) -> None:
    cluster.sql(
        "CREATE STREAMED VIEW sunk_again AS SELECT shop, COUNT(*) AS n, 0 AS total FROM sunk_sold GROUP BY shop"
    )
    cluster.await_frontier(cluster.topic("sunk_again"), ROUNDS * 10 + 10)
    target = lake / "again.db"
    cluster.sql(f"CREATE SINK again FROM sunk_again INTO 'sqlite:///{target}' {EVERY}")
    assert wait_until(lambda: sinks(cluster)["again"]["position"], DEADLINE_S), sinks(cluster)
    with closing(sqlite3.connect(target)) as connection, connection:
        connection.execute("UPDATE dsms_positions SET token = 'o99999:1'")  # as of a result that was replaced meanwhile
    for process in processes(cluster):
        process.kill()
    assert wait_until(lambda: sinks(cluster)["again"]["state"] == "failed", DEADLINE_S), sinks(cluster)
    assert "ALTER SINK again RESTART empties the target" in sinks(cluster)["again"]["reason"]
    cluster.sql("ALTER SINK again RESTART")
    expected = takings(cluster, "sunk_again")
    running = lambda: sinks(cluster)["again"]["state"] == "running" and in_sqlite(target, "sunk_again") == expected  # noqa: E731
    assert wait_until(running, DEADLINE_S), sinks(cluster)
