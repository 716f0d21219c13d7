"""Values of arrays, bytes, intervals and numbers that are not finite, sent and received by psycopg, asyncpg and
pg8000."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import math
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import asyncpg
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.datetime import IntervalBinaryLoader
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine.reflection import Inspector
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.sql import sqltypes

from dsms.coordinator.postgres.array_texts import NoArray, array_text, items_of
from dsms.coordinator.postgres.literals import literal
from dsms.coordinator.postgres.messages import Malformed
from dsms.coordinator.postgres.values import writer_of
from dsms.coordinator.postgres.wire_types import ARRAYS, Type
from tests.dsms.coordinator.postgres.local_served import served

TABLE = """CREATE TABLE t (k INT PRIMARY KEY, names TEXT[], counts BIGINT[], bytes BYTES, price DOUBLE, day DATE,
    at TIMESTAMP, prices DECIMAL(9, 2)[], ids UUID[], flags BOOLEAN[], days DATE[], parts BLOB[], amounts DOUBLE[])"""
NAMES = ["a", None, 'b "c"', "d,e", "{f}", "back\\slash", "NULL", "", "it's"]
Client = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as (made, port):
        made.session.execute(TABLE)
        yield port


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[Client]:
    with psycopg.connect(host="127.0.0.1", port=port, user="ann", dbname="x", autocommit=True) as connection:
        yield connection


ROWS = {
    "names": [NAMES, [], ["x"], None],
    "counts": [[1, -(2**40), None], [], None],
    "bytes": [b"\x00\xff'\\", b"", None],
    "price": [math.inf, -math.inf, math.nan, 0.1],
    "day": [dt.date(2024, 2, 29)],
    "at": [dt.datetime(2024, 2, 29, 23, 59, 59, 123_456)],  # noqa: DTZ001  a TIMESTAMP has no zone
    "prices": [[decimal.Decimal("1.25"), None], []],
    "ids": [[uuid.UUID(int=7)], []],
    "flags": [[True, None, False], []],
    "days": [[dt.date(2024, 2, 29), None], []],
    "parts": [[b"\x00", b"", None], []],
    "amounts": [[1.5, math.inf, -0.0], []],
}


def same(left: object, right: object) -> bool:
    return left == right or (isinstance(left, float) and isinstance(right, float) and math.isnan(left + right))


@pytest.mark.parametrize(("column", "value"), [(column, value) for column, values in ROWS.items() for value in values])
def test_psycopg_writes_and_reads_what_it_wrote(client: Client, column: str, value: object) -> None:
    for form in ("%s", "%b", "%t"):
        client.execute("DELETE FROM t")
        client.execute(f"INSERT INTO t (k, {column}) VALUES (1, {form})", (value,))
        for binary in (False, True):
            ((found,),) = client.cursor(binary=binary).execute(f"SELECT {column} FROM t").fetchall()
            assert same(found, value), (form, binary)


@pytest.mark.parametrize(("keys", "found"), [([1, 3, None], [1, 3]), ([], []), ([7], [])])
def test_any_of_an_array(client: Client, keys: list[int | None], found: list[int]) -> None:
    client.execute("DELETE FROM t")
    client.execute("INSERT INTO t (k, names) VALUES (1, ARRAY['a']), (2, ARRAY['b']), (3, NULL)")
    rows = client.execute("SELECT k FROM t WHERE k = ANY(%s) ORDER BY k", (keys,)).fetchall()
    assert [k for (k,) in rows] == found
    assert client.execute("SELECT k FROM t WHERE %s = ANY(names)", ("b",)).fetchall() == [(2,)]
    assert client.execute("SELECT k FROM t WHERE names && %s", (["a", "z"],)).fetchall() == [(1,)]


def test_intervals(client: Client) -> None:
    length = dt.timedelta(days=-3, hours=5, microseconds=7)
    start = dt.datetime(2024, 3, 1)  # noqa: DTZ001  a TIMESTAMP has no zone
    for form in ("%s", "%b", "%t"):
        moved = client.execute(f"SELECT TIMESTAMP '2024-03-01 00:00:00' + {form} AS at", (length,)).fetchone()
        assert moved == (start + length,)
    for binary in (False, True):
        cursor = client.cursor(binary=binary)
        assert cursor.execute("SELECT INTERVAL '26 hours 0.5 seconds' AS a").fetchone() == (
            dt.timedelta(days=1, hours=2, seconds=0.5),
        )


def test_a_number_has_its_precision_and_scale(client: Client) -> None:
    (column,) = client.execute("SELECT CAST(1.5 AS DECIMAL(9, 2)) AS price").description or ()
    assert (column.precision, column.scale) == (9, 2)


def test_asyncpg(port: int) -> None:
    async def run() -> None:
        client = await asyncpg.connect(host="127.0.0.1", port=port, user="ann", database="x", ssl=False)
        try:
            await client.execute("DELETE FROM t")
            insert = "INSERT INTO t (k, names, counts, bytes, price, day, flags) VALUES ($1, $2, $3, $4, $5, $6, $7)"
            row = (1, NAMES, [1, None], b"\x00\xff", -math.inf, dt.date(2024, 2, 29), [])
            await client.execute(insert, *row)
            assert await client.fetch("SELECT k, names, counts, bytes, price, day, flags FROM t") == [row]
            assert await client.fetchval("SELECT k FROM t WHERE k = ANY($1)", [1, 2]) == 1
            assert await client.fetchval("SELECT k FROM t WHERE k = ANY($1::int[])", []) is None
            assert await client.fetchval("SELECT k FROM t WHERE $1 = ANY(names)", "a") == 1
            length = dt.timedelta(days=1, seconds=2)
            moved = await client.fetchval(
                "SELECT at + $1 AS at FROM (SELECT day + $2 AS at FROM t) AS x", length, length
            )
            assert moved == dt.datetime(2024, 3, 2, 0, 0, 4)  # noqa: DTZ001  a TIMESTAMP has no zone
            relations = "SELECT relname FROM pg_class WHERE oid = ANY($1::oid[])"
            oid = await client.fetchval("SELECT 't'::regclass::oid")
            assert await client.fetch(relations, [oid, 7]) == [("t",)]
            assert await client.fetch(relations, []) == []
            assert await client.fetchval("SELECT relname FROM pg_class WHERE oid = $1", oid) == "t"
        finally:
            await client.close()

    asyncio.run(run())


def test_pg8000(port: int) -> None:
    native = pytest.importorskip("pg8000.native")
    connection = native.Connection("ann", host="127.0.0.1", port=port, database="x")
    try:
        connection.run("DELETE FROM t")
        names = [name for name in NAMES if name is not None]
        row = {"k": 1, "names": names, "bytes": b"\x00\xff", "price": math.inf, "day": dt.date(2024, 2, 29)}
        connection.run("INSERT INTO t (k, names, bytes, price, day) VALUES (:k, :names, :bytes, :price, :day)", **row)
        assert connection.run("SELECT k, names, bytes, price, day FROM t") == [list(row.values())]
        assert connection.run("SELECT k FROM t WHERE k = ANY(:keys)", keys=[1, 2]) == [[1]]
        length = dt.timedelta(days=1, seconds=2)
        assert connection.run("SELECT day + :length AS at FROM t", length=length) == [
            [dt.datetime(2024, 3, 1, 0, 0, 2)]  # noqa: DTZ001  a TIMESTAMP has no zone
        ]
    finally:
        connection.close()


@pytest.mark.parametrize("driver", ["psycopg", "pg8000"])
def test_sqlalchemy_inspects_with_each_driver(port: int, driver: str) -> None:
    engine = create_engine(f"postgresql+{driver}://ann@127.0.0.1:{port}/x")
    check_inspected(inspect(engine))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM t WHERE k = ANY(:keys)"), {"keys": [-1]}).scalar() == 0
    engine.dispose()


def test_sqlalchemy_inspects_with_asyncpg(port: int) -> None:
    async def run() -> None:
        engine = create_async_engine(f"postgresql+asyncpg://ann@127.0.0.1:{port}/x?ssl=disable")
        async with engine.connect() as connection:
            await connection.run_sync(lambda made: check_inspected(inspect(made)))
        await engine.dispose()

    asyncio.run(run())


def check_inspected(found: Inspector) -> None:
    kinds = {column["name"]: column["type"] for column in found.get_columns("t")}
    assert isinstance(kinds["names"], sqltypes.ARRAY) and isinstance(kinds["names"].item_type, sqltypes.TEXT)
    assert {name: str(kinds[name]) for name in ("bytes", "price", "day")} == {
        "bytes": "BYTEA",
        "price": "DOUBLE PRECISION",
        "day": "DATE",
    }
    assert found.get_pk_constraint("t")["constrained_columns"] == ["k"]
    assert (found.get_foreign_keys("t"), found.get_unique_constraints("t"), found.get_indexes("t")) == ([], [], [])
    assert found.has_table("t") and not found.has_table("nothing")


def test_the_date_of_jdbc_may_have_a_zone() -> None:
    """The driver sends dates without a type, as text and with the zone of the client."""
    assert literal(b"2024-05-01 +01", 0, binary=False) == "'2024-05-01'"
    assert literal(b"2024-05-01 +05:30", 1082, binary=False) == "'2024-05-01'"
    assert literal(b"2024-05-01 10:00:00+01", 0, binary=False) == "'2024-05-01 10:00:00+01'"


ITEMS = st.recursive(
    st.none() | st.text(max_size=5), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=6
)


@given(st.lists(ITEMS, max_size=4))
def test_arrays_are_read_as_they_are_written(items: list[object]) -> None:
    assert items_of(array_text(items, str)) == items


@settings(max_examples=60)
@given(st.lists(st.none() | st.text(st.characters(blacklist_characters="\0", codec="utf-8"), max_size=5), max_size=4))
def test_psycopg_reads_arrays(items: list[str | None]) -> None:
    oid = ARRAYS[25]
    for form, binary in ((psycopg.pq.Format.TEXT, False), (psycopg.pq.Format.BINARY, True)):
        loader = psycopg.adapters.get_loader(oid, form)
        data = writer_of(Type(oid, -1), binary=binary)(items)
        assert loader is not None and data is not None
        assert loader(oid).load(data) == items


@pytest.mark.parametrize(
    "wrong", ["", "1,2", "{1", "{1}}", "{1}{2}", "{,}", "{1,}", "{1 {2}}", '{"a}', "{1}x", "{" * 9 + "}" * 9]
)
def test_texts_that_are_not_arrays(wrong: str) -> None:
    with pytest.raises(NoArray):
        items_of(wrong)
    with pytest.raises(Malformed):
        literal(wrong.encode(), ARRAYS[23], binary=False)


@given(st.binary(max_size=40))
def test_no_bytes_make_an_array_that_is_larger_than_they_are(value: bytes) -> None:
    with suppress(Malformed):
        assert len(literal(value, ARRAYS[23], binary=True)) < 4_000


@given(st.timedeltas(dt.timedelta(days=-9_999), dt.timedelta(days=9_999)))
def test_psycopg_reads_intervals(length: dt.timedelta) -> None:
    data = writer_of(Type(1186, 16), binary=True)(length)
    assert data is not None
    assert IntervalBinaryLoader(1186).load(data) == length
