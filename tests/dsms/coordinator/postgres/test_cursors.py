"""Cursors by SQL and by the ways of psycopg and asyncpg, over a local session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.dsms.coordinator.postgres.local_served import served

ROWS = [(k, f"n{k}") for k in range(1, 8)]
Client = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def port() -> Iterator[int]:
    with served() as (made, port):
        made.session.execute("CREATE TABLE t (k INT PRIMARY KEY, name TEXT)")
        made.session.execute(f"INSERT INTO t VALUES {', '.join(map(str, ROWS))}")
        yield port


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    with psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/x", autocommit=True) as made:
        yield made


def fetched(client: Client, sql: str) -> list[int]:
    return [row[0] for row in client.execute(sql).fetchall()]


def test_fetch_move_and_close(client: Client) -> None:
    client.execute("DECLARE c SCROLL CURSOR FOR SELECT k, name FROM t ORDER BY k")
    assert client.execute("FETCH 2 FROM c").fetchall() == ROWS[:2]
    assert client.execute("MOVE 2 IN c").statusmessage == "MOVE 2"
    assert client.execute("FETCH c").statusmessage == "FETCH 1"
    assert fetched(client, "FETCH PRIOR FROM c") == [4]
    assert fetched(client, "FETCH FORWARD 0 FROM c") == [4]
    assert fetched(client, "FETCH ALL FROM c") == [5, 6, 7]
    assert fetched(client, "FETCH NEXT FROM c") == []
    assert fetched(client, "FETCH BACKWARD 2 FROM c") == [7, 6]
    assert fetched(client, "FETCH ABSOLUTE -2 FROM c") == [6]
    assert fetched(client, "FETCH RELATIVE -1 FROM c") == [5]
    assert fetched(client, "FETCH FIRST FROM c") == [1]
    assert fetched(client, "FETCH BACKWARD ALL FROM c") == []
    assert fetched(client, "FETCH LAST FROM c") == [7]
    assert client.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
    with pytest.raises(psycopg.errors.InvalidCursorName, match='cursor "c" does not exist'):
        client.execute("FETCH c")


def test_a_cursor_reads_the_rows_of_when_it_was_declared(client: Client) -> None:
    client.execute('DECLARE "C d" CURSOR FOR SELECT k FROM t WHERE k > %s ORDER BY k', (5,))
    client.execute("DELETE FROM t WHERE k = 6")
    assert fetched(client, 'FETCH ALL IN "C d"') == [6, 7]


def test_the_end_of_a_transaction_closes_cursors_without_hold(client: Client) -> None:
    for _ in range(2):
        with client.transaction():
            client.execute("DECLARE a CURSOR FOR SELECT k FROM t")
    with client.transaction():
        client.execute("DECLARE b CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k")
    assert fetched(client, "FETCH b") == [1]
    with pytest.raises(psycopg.errors.DuplicateCursor, match='cursor "b" already exists'):
        client.execute("DECLARE b CURSOR FOR SELECT 1")
    for statement in ("CLOSE ALL", "DISCARD ALL"):
        client.execute(statement)
        with pytest.raises(psycopg.errors.InvalidCursorName):
            client.execute("FETCH b")
        client.execute("DECLARE b CURSOR FOR SELECT 1")


def test_wrong_declarations(client: Client) -> None:
    with pytest.raises(psycopg.errors.InvalidCursorDefinition, match="is for SELECT"):
        client.execute("DECLARE c CURSOR FOR SET x = 1")
    with pytest.raises(psycopg.errors.UndefinedTable) as error:
        client.execute("DECLARE c CURSOR FOR SELECT * FROM nope")
    assert error.value.diag.statement_position == "36"


def test_named_cursors_of_psycopg(port: int) -> None:
    with psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/x") as client:
        with client.cursor("named") as cursor:
            cursor.itersize = 3
            cursor.execute("SELECT k, name FROM t WHERE k >= %s ORDER BY k", (2,))
            assert [column.name for column in cursor.description or ()] == ["k", "name"]
            assert cursor.fetchone() == ROWS[1]
            assert cursor.fetchmany(2) == ROWS[2:4]
            assert list(cursor) == ROWS[4:]
        with client.cursor("named", scrollable=True, withhold=True) as cursor:
            cursor.execute("SELECT k FROM t ORDER BY k")
            client.commit()
            cursor.scroll(3)
            assert cursor.fetchone() == (4,)
            cursor.scroll(0, mode="absolute")
            assert cursor.fetchall() == [(k,) for k, _ in ROWS]


def test_cursors_of_asyncpg(port: int) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def run() -> None:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", database="x", ssl=False)
        try:
            async with client.transaction():
                asked = client.cursor("SELECT k FROM t WHERE k > $1 ORDER BY k", 2, prefetch=2)
                found = [row["k"] async for row in asked]
                assert found == [3, 4, 5, 6, 7]
                cursor = await client.cursor("SELECT k, name FROM t ORDER BY k")
                assert await cursor.fetchrow() == ROWS[0]
                assert await cursor.forward(2) == 2
                assert await cursor.fetch(10) == ROWS[3:]
                await client.execute("DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k")
                assert [row["k"] for row in await client.fetch("FETCH 3 FROM c")] == [1, 2, 3]
        finally:
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("statement", ["DROP TABLE t", "INSERT INTO t VALUES (9, 'x') RETURNING k", "SHOW TABLES"])
def test_a_cursor_is_for_queries_only(client: Client, statement: str) -> None:
    with pytest.raises(psycopg.Error, match="a cursor is for SELECT, WITH, VALUES or SUBSCRIBE"):
        client.execute(f"DECLARE c CURSOR FOR {statement}")
    assert client.execute("SELECT k FROM t ORDER BY k").fetchall() == [(k,) for k, _ in ROWS]
