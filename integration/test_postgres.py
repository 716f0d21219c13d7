"""Clients of PostgreSQL at a coordinator: psycopg, asyncpg, SQLAlchemy and psql, with tokens and TLS, over Kafka and
Spark."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, inspect

from dsms.local.ports import free_port
from dsms.model.tokens import entry, new_token
from integration.cluster import Cluster, running
from integration.kafka_log import Input, advance, write
from integration.secured_postgres import secured_postgres

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
AT = datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000)  # noqa: DTZ001  a TIMESTAMP has no zone
ORDERS = """CREATE STREAM orders (id BIGINT, customer TEXT, amount DECIMAL(9, 2), at BIGINT) ORDER BY at
    SOURCE '{topic}' PARTITIONS 1 IDLE NEVER;
CREATE MATERIALIZED VIEW revenue AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE TABLE customers (name TEXT PRIMARY KEY, since TIMESTAMP, tags TEXT[])"""


class Open(NamedTuple):
    """A cluster, and how clients connect to it."""

    cluster: Cluster
    conninfo: str
    address: str

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.conninfo, autocommit=True)


def order(number: int, customer: str, at: int) -> Input:
    return Input(json.dumps({"id": number, "customer": customer, "amount": "1.25", "at": at}).encode(), 0)


@pytest.fixture(scope="module")
def opened(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    port = free_port()
    directory = tmp_path_factory.mktemp("postgres")
    with running(kafka, redis_url, directory, environment={"DSMS_POSTGRES_PORT": str(port)}) as cluster:
        made = Open(cluster, f"host=127.0.0.1 port={port} user=ann dbname=dsms", f"127.0.0.1:{port}")
        with made.connect() as connection:
            connection.execute(ORDERS.format(topic=f"{cluster.name}orders"))
        cluster.start_executor()
        rows = [{"id": at, "customer": "ab"[at % 2], "amount": "1.25", "at": at} for at in range(10)]
        write(kafka, f"{cluster.name}orders", [Input(json.dumps(row).encode(), 0) for row in rows])
        advance(kafka, f"{cluster.name}orders", 20)
        cluster.await_frontier(cluster.topic("revenue"), 20)
        yield made


def test_a_view_is_read_as_values_of_its_types(opened: Open) -> None:
    with opened.connect() as connection:
        cursor = connection.execute("SELECT customer, n, total FROM revenue WHERE n > %s ORDER BY customer", (3,))
        wanted = decimal.Decimal("6.25")
        assert cursor.fetchall() == [("a", 5, wanted), ("b", 5, wanted)]
        assert cursor.statusmessage == "SELECT 2"


def test_changes_are_copied_as_they_are_committed(kafka: str, opened: Open) -> None:
    wanted = 'COPY (SUBSCRIBE TO "revenue") TO STDOUT'
    with opened.connect() as connection, connection.cursor().copy(wanted) as copied:
        lines = iter(copied.rows())
        first = [next(lines) for _ in range(2)]
        assert {(line[1], line[2]) for line in first} == {("+", "a"), ("+", "b")}
        write(kafka, f"{opened.cluster.name}orders", [order(20, "x\ty", 25), order(21, "x\ty", 26)])
        advance(kafka, f"{opened.cluster.name}orders", 30)
        seen: list[tuple[str | None, ...]] = []
        while len(seen) < 2:
            seen += [line for line in [next(lines)] if line[2] == "x\ty"]
        assert seen == [("25", "+", "x\ty", "1", "1.25"), ("26", "u", "x\ty", "2", "2.50")]
        connection.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            list(lines)


def test_past_changes_can_be_copied_and_errors_are_reported_as_for_statements(opened: Open) -> None:
    with opened.connect() as connection:
        with connection.cursor().copy("COPY (SUBSCRIBE revenue WITH (FOLLOW = false)) TO STDOUT") as copied:
            assert len(list(copied.rows())) >= 2
        assert connection.execute("SELECT 1 AS a").fetchone() == (1,)
        for text, error in (("nothing", "not found"), ("revenue WITH (SPEED)", 'unknown option "SPEED')):
            with (
                pytest.raises(psycopg.Error, match=error),
                connection.cursor().copy(f"COPY (SUBSCRIBE {text}) TO STDOUT") as copied,
            ):
                list(copied.rows())
    done = psql(opened, "COPY (SUBSCRIBE revenue WITH (FOLLOW = false)) TO STDOUT")
    assert any(line.split("\t")[1:3] == ["+", "b"] for line in done.stdout.splitlines()), done


def test_changes_are_fetched_through_a_cursor(opened: Open) -> None:
    with opened.connect() as connection:
        connection.execute("DECLARE c CURSOR FOR SUBSCRIBE revenue")
        cursor = connection.execute("FETCH 2 FROM c WITH (timeout = '60s')")
        assert [column.name for column in cursor.description or ()] == ["dsms_ts", "dsms_op", "customer", "n", "total"]
        rows = cursor.fetchall()
        assert {(row[1], row[2]) for row in rows} <= {(op, name) for op in "+u" for name in ("a", "b", "x\ty")}
        assert {type(row[4]) for row in rows} == {decimal.Decimal}
        connection.execute("CLOSE c")


def test_values_that_json_does_not_have(opened: Open) -> None:
    with opened.connect() as connection:
        connection.execute("CREATE TABLE measured (k INT PRIMARY KEY, t DOUBLE, body BYTES, counts BIGINT[])")
        row = (1, -math.inf, b"\x00\xff", [1, None])
        connection.execute("INSERT INTO measured VALUES (%s, %s, %s, %s)", row)
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            assert cursor.execute("SELECT * FROM measured WHERE k = ANY(%s)", ([1, 2],)).fetchall() == [row]
            assert cursor.execute("SELECT t FROM measured WHERE k = 1").fetchall() == [(-math.inf,)]


def test_asyncpg_and_the_inspector_of_sqlalchemy(opened: Open) -> None:
    async def run() -> None:
        client = await asyncpg.connect(f"postgresql://ann@{opened.address}/dsms?sslmode=disable")
        try:
            row = await client.fetchrow("SELECT n FROM revenue WHERE customer = ANY($1)", ["a"])
            assert row is not None and row["n"] >= 5
        finally:
            await client.close()

    asyncio.run(run())
    engine = create_engine(f"postgresql+pg8000://ann@{opened.address}/dsms")
    found = inspect(engine)
    assert "customers" in found.get_table_names() and "revenue" in found.get_materialized_view_names()
    assert found.get_pk_constraint("revenue")["constrained_columns"] == ["customer"]
    assert "orders" in found.get_foreign_table_names()
    engine.dispose()


def test_a_table_is_written_and_read(opened: Open) -> None:
    with opened.connect() as connection:
        connection.execute("INSERT INTO customers VALUES (%s, %s, ARRAY['x', 'y'])", ("a", AT), prepare=True)
        (row,) = connection.execute("SELECT name, since, tags, NULL AS nothing FROM customers").fetchall()
        assert row == ("a", AT, ["x", "y"], None)


def psql(opened: Open, *commands: str, password: str = "") -> subprocess.CompletedProcess[str]:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed: Debian's postgresql-client has it")
    each = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        ["psql", opened.conninfo, "-X", "-A", "-t", *each],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PGPASSWORD": password, "PATH": "/usr/bin:/bin"},
    )


def test_psql_runs_statements_and_describes_objects(opened: Open) -> None:
    done = psql(
        opened, "SELECT customer, n FROM revenue ORDER BY 1", r"\d revenue", r"\d", "SELECT nothing FROM revenue"
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["a|5", "b|5"], done
    assert "customer|text||not null|" in lines or "customer|text|||" in lines
    assert {"public|revenue|materialized view|dsms", "public|customers|table|dsms"} <= set(lines)
    assert "public|orders|foreign table|dsms" in lines
    assert 'column "nothing" not found' in done.stderr and done.returncode == 1


def test_with_tokens_and_tls(kafka: str, redis_url: str, tmp_path: Path) -> None:
    token, known = new_token("ann", "reader")
    secured = secured_postgres(tmp_path, entry(known))
    with running(kafka, redis_url, tmp_path, environment=secured.environment):
        with secured.connect(token) as connection:
            assert connection.execute("SHOW SOURCES").fetchall()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("CREATE TABLE forbidden_here (k INT PRIMARY KEY)")
        with pytest.raises(psycopg.OperationalError, match="not a known token"):
            secured.connect("dsms_wrong")
