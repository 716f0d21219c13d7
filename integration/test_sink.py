"""`dsms sink` over a real cluster, killed while it writes: its target contains the result, each change once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from dsms.local.process import ManagedProcess, ProcessSpec
from dsms.local.waiting import wait_until
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, changes, write
from tests.support import lake_tables

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
ROUNDS, ROWS = 4, 300


@pytest.fixture(scope="module")
def cluster(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(kafka, redis_url, tmp_path_factory.mktemp("sink")) as made:
        made.sql(f"""
            REGISTER SOURCE sales (shop INT, amount INT) FROM "{made.name}sales" PARTITIONS 1 TAGGED NONE IDLE NEVER;
            CREATE STREAM sold OVER sales KEY NULL;
            CREATE STREAMED VIEW kept_takings AS
                SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sold GROUP BY shop
        """)
        made.start_executor()
        yield made


def publish(cluster: Cluster, number: int) -> None:
    rows = [{"shop": at % 7, "amount": number * ROWS + at} for at in range(ROWS)]
    write(cluster.kafka, f"{cluster.name}sales", [Input(json.dumps(row).encode(), number * 10) for row in rows])
    advance(cluster.kafka, f"{cluster.name}sales", number * 10 + 10)


def rows_in(directory: Path) -> list[tuple[object, ...]]:
    return lake_tables.rows(lake_tables.iceberg_files(directory, "shop.takings"))


def sink(cluster: Cluster, target: tuple[str, ...], log: Path) -> ManagedProcess:
    program = (sys.executable, "-c", "from dsms.cli.main import main; main()")
    command = (*program, "sink", "kept_takings", *target, "--every", "0", "--coordinator", cluster.url)
    return ManagedProcess(ProcessSpec("sink", command, log, lambda: True, dict(os.environ)))


def takings(cluster: Cluster) -> list[tuple[int, int, int]]:
    return sorted(map(tuple, cluster.get("queries/kept_takings/relation")["rows"]))


def test_killed_sink_continues_at_its_position(cluster: Cluster, tmp_path: Path) -> None:
    database, files = f"sqlite:///{tmp_path / 'kept.db'}", tmp_path / "changes"
    iceberg, delta, log = tmp_path / "iceberg", tmp_path / "delta", tmp_path / "delta_log"
    targets = {
        "database": (database,),
        "files": (str(files),),
        "iceberg": (f"iceberg:{iceberg}", "--table", "shop.takings"),
        "delta": (f"delta:{delta}",),
        "log": (f"delta:{log}", "--changes"),
    }
    sinks = [sink(cluster, target, tmp_path / f"{name}.log") for name, target in targets.items()]
    try:
        for number in range(ROUNDS):
            for process in sinks:
                process.start()
            publish(cluster, number)
            cluster.await_frontier(cluster.topic("kept_takings"), number * 10 + 10)
            if number < ROUNDS - 1:
                for process in sinks:
                    process.kill()
        expected, last = takings(cluster), changes(cluster.kafka, cluster.topic("kept_takings"))
        assert expected
        assert wait_until(lambda: rows_of(database) == expected, 120), (tmp_path / "database.log").read_text()
        assert wait_until(lambda: len(kept(files)) == len(last), 120), (tmp_path / "files.log").read_text()
        assert wait_until(lambda: rows_in(iceberg) == expected, 120), (tmp_path / "iceberg.log").read_text()
        assert wait_until(lambda: lake_tables.rows(lake_tables.delta_files(delta)) == expected, 120), (
            tmp_path / "delta.log"
        ).read_text()
        assert wait_until(lambda: len(lake_tables.rows(lake_tables.delta_files(log))) == len(last), 120), (
            tmp_path / "log.log"
        ).read_text()
    finally:
        for process in sinks:
            process.kill()
    every = [(each.op, each.ts, *json.loads(each.value).values()) for each in last if each.value]
    assert [(op, ts, shop, n, total) for op, ts, shop, n, total in kept(files)] == every
    assert lake_tables.rows(lake_tables.delta_files(log)) == sorted(every, key=str)


def rows_of(url: str) -> list[tuple[object, ...]]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            return sorted(tuple(row) for row in connection.execute(sa.text("SELECT shop, n, total FROM kept_takings")))
    except sa.exc.OperationalError:
        return []
    finally:
        engine.dispose()


def kept(directory: Path) -> list[tuple[object, ...]]:
    files = sorted(directory.glob("*.parquet"))
    return pl.read_parquet(files).rows() if files else []
