"""asyncpg and pg8000, which describe statements before they run them, over a local session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.dsms.coordinator.postgres.local_served import served

TABLE = "CREATE TABLE t (k INT PRIMARY KEY, name TEXT, price DOUBLE, sold BOOLEAN)"


@pytest.fixture
def port() -> Iterator[int]:
    with served() as (made, port):
        made.session.execute(TABLE)
        yield port


def pooled(port: int, use: Callable[[Any], Awaitable[None]]) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def run() -> None:
        where = {"host": "127.0.0.1", "port": port, "user": "ann", "database": "x", "ssl": False}
        async with asyncpg.create_pool(min_size=1, max_size=1, **where) as pool:
            await use(pool)

    asyncio.run(run())


def test_a_connection_goes_back_to_the_pool_of_asyncpg(port: int) -> None:
    async def use(pool: Any) -> None:
        for number in range(3):
            async with pool.acquire() as connection:
                assert await connection.fetchval("SELECT $1::int + 1", number) == number + 1

    pooled(port, use)


def test_asyncpg_sends_and_gets_values_of_their_types(port: int) -> None:
    async def use(pool: Any) -> None:
        row = (1, "O'Hara", 2.5, True)
        assert await pool.fetch("INSERT INTO t VALUES ($1, $2, $3, $4) RETURNING k, name", *row) == [(1, "O'Hara")]
        await pool.execute("INSERT INTO t (price, k) VALUES ($1, $2)", 7.0, 2)
        await pool.executemany("INSERT INTO t (k, sold) VALUES ($1, $2)", [(3, False), (4, None)])
        assert await pool.fetch("SELECT * FROM t AS x WHERE x.k = $1 AND sold = $2", 1, True) == [row]
        assert await pool.fetchval("UPDATE t SET price = price + $1 WHERE k = $2 RETURNING price", 1.5, 2) == 8.5
        found = await pool.fetch("SELECT k FROM t WHERE k BETWEEN $1 AND $2 ORDER BY k LIMIT $3", 1, 9, 3)
        assert found == [(1,), (2,), (3,)]
        assert await pool.fetch("DELETE FROM t AS x WHERE x.k IN ($1, $2) RETURNING x.k, x.k + 1 AS next", 3, 9) == [
            (3, 4)
        ]

    pooled(port, use)


def test_pg8000(port: int) -> None:
    native = pytest.importorskip("pg8000.native")
    connection = native.Connection("ann", host="127.0.0.1", port=port, database="x")
    try:
        made = connection.run("INSERT INTO t VALUES (:k, :name, 1.5, TRUE) RETURNING k, price", k=7, name="a")
        assert made == [[7, 1.5]]
        assert connection.run("SELECT name, sold FROM t WHERE k = :k", k=7) == [["a", True]]
        statement = connection.prepare("SELECT count(*) AS n FROM t WHERE price > :least")
        assert statement.run(least=1.0) == [[1]]
        assert [column["name"] for column in statement.columns or []] == ["n"]
        statement.close()
    finally:
        connection.close()
