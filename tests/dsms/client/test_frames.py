"""Results as frames: columns have the types of SQL, and each change is in exactly one table."""

from __future__ import annotations

import asyncio
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import httpx
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.client import AsyncClient, Client, Relation
from dsms.client.frames import polars_frame

#: SQL types with a value in JSON and the same value in Python.
VALUES: list[tuple[str, Any, Any]] = [
    ("BIGINT", 2**62 + 1, 2**62 + 1),
    ("INT", -7, -7),
    ("VARCHAR", "é", "é"),
    ("BOOLEAN", True, True),
    ("DOUBLE", 0.1, 0.1),
    ("DOUBLE", "-Infinity", float("-inf")),
    ("DECIMAL(30, 4)", "12345678901234567890.1234", Decimal("12345678901234567890.1234")),
    ("DATE", "2026-02-28", date(2026, 2, 28)),
    ("TIMESTAMP", "2026-02-28 23:59:59.000001", datetime.fromisoformat("2026-02-28 23:59:59.000001")),
    ("BYTES", "AAH/", b"\x00\x01\xff"),
    ("INT[]", [1, None, 3], [1, None, 3]),
    ("ROW(a INT, b VARCHAR)", {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
]


def relation(values: list[tuple[str, Any, Any]]) -> Relation:
    names, types = [f"c{at}" for at in range(len(values))], [type_ for type_, _, _ in values]
    return Relation("r", 7, names, [[value for _, value, _ in values], [None] * len(values)], 2, types)


def test_a_relation_has_the_types_of_sql() -> None:
    found = relation(VALUES)
    wanted = [tuple(value for _, _, value in VALUES), (None,) * len(VALUES)]
    assert found.polars().rows() == wanted
    table = found.arrow()
    assert [tuple(row.values()) for row in table.to_pylist()] == wanted
    assert table.schema.field("c6").type == pa.decimal128(30, 4)
    assert table.schema.field("c2").type == pa.string()
    assert found.pandas().shape == (2, len(VALUES)) and found.pandas()["c2"].tolist() == ["é", None]


def test_a_relation_without_rows_has_them_too() -> None:
    empty = Relation("r", 7, ["k", "at"], [], 0, ["BIGINT", "TIMESTAMP"])
    assert empty.polars().schema == {"k": pl.Int64, "at": pl.Datetime("us")}


def test_a_notebook_shows_the_name_as_text() -> None:
    shown = Relation("<b>", 7, ["k"], [[1]], 1, ["BIGINT"])._repr_html_()
    assert "&lt;b&gt; at 7: 1 rows" in shown and "<table" in shown


def server(count: int, size: int) -> httpx.MockTransport:
    """Serves changes whose rows have a decimal. Every third change is a removal, which has only the key."""
    start = {"event": "start", "name": "hot", "columns": ["k", "d"], "types": ["INT", "DECIMAL(9, 2)"], "token": "o3:0"}
    lines = [start]
    for at in range(count):
        body = {"op": "-", "key": {"k": at}} if at % 3 == 2 else {"op": "+", "row": {"k": at, "d": f"{at}.50"}}
        lines.append({**body, "ts": at, "partition": 0, "offset": at, "token": f"o3:{at + 1}"})
    lines.append({"event": "end", "reason": "end", "message": "", "token": f"o3:{count}"})
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    parts = [body[at : at + size] for at in range(0, len(body), size)]

    async def sent():
        for part in parts:
            yield part

    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=iter(parts) if "sync" in request.headers else sent())

    return httpx.MockTransport(handler)


def wanted(count: int) -> list[tuple[Any, ...]]:
    return [("-", at, at, None) if at % 3 == 2 else ("+", at, at, Decimal(f"{at}.50")) for at in range(count)]


@given(st.integers(0, 20), st.integers(1, 400), st.integers(1, 7))
def test_each_change_is_in_one_table(count: int, size: int, most: int) -> None:
    client = Client("http://c", transport=server(count, size))
    client._http.headers["sync"] = "1"
    tables = list(client.changes("hot", follow=False).polars(most))
    assert [row for table in tables for row in table.rows()] == wanted(count)
    assert all(0 < table.height <= most for table in tables)
    again = list(client.changes("hot", follow=False).arrow())
    assert [tuple(row.values()) for table in again for row in table.to_pylist()] == wanted(count)
    assert all(table.schema.names == ["op", "ts", "k", "d"] for table in again)


def test_tables_continue_after_the_changes_already_taken() -> None:
    client = Client("http://c", transport=server(9, 10_000))
    client._http.headers["sync"] = "1"
    changes = client.changes("hot", follow=False)
    taken = [next(changes).ts for _ in range(4)]
    rest = [row for table in changes.polars() for row in table.rows()]
    assert taken == [0, 1, 2, 3] and rest == wanted(9)[4:]


def test_each_change_is_in_one_table_of_the_asynchronous_client() -> None:
    async def read() -> list[tuple[Any, ...]]:
        async with AsyncClient("http://c", transport=server(9, 50)) as client:
            frames = [frame async for frame in client.changes("hot", follow=False).polars(2)]
            tables = [table async for table in client.changes("hot", follow=False).arrow()]
        assert [row for frame in frames for row in frame.rows()] == [
            tuple(row.values()) for table in tables for row in table.to_pylist()
        ]
        return [row for frame in frames for row in frame.rows()]

    assert asyncio.run(read()) == wanted(9)


def test_values_that_are_not_of_their_types_are_a_defect() -> None:
    with pytest.raises(Exception, match="does not have the types of its result"):
        polars_frame([{"k": "x"}], ["k"], ["INT"])
