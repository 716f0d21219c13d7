"""SELECTs have the same answers over the rows that an index finds, over all rows, and in DuckDB."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.kafka.logs.followed_fold import FollowedFold
from dsms.coordinator.results.decoded_table import DecodedTable
from dsms.model.statements import Select
from dsms.statements.registry import parse
from dsms.tables.one_time import typed_answer
from dsms.tables.one_time_query import one_time_query_of
from dsms.tables.sorted_index import Seek, SortedIndex
from dsms.tables.sought_values import Sought, sought_values
from dsms.testing import LocalSession
from tests.support.message_pieces import piece_of

SCHEMA = pa.schema(
    [("k", pa.int32()), ("a", pa.int32()), ("x", pa.float64()), ("s", pa.string()), ("moment", pa.timestamp("us"))]
)
INDEXES = {"one": ("a",), "two": ("s", "a"), "three": ("x",), "four": ("moment", "x")}
SESSION = LocalSession()
SESSION.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT, x DOUBLE, s TEXT, moment TIMESTAMP)")
TIMES = [dt.datetime(2026, 5, day, 12) for day in (1, 2, 3)]  # noqa: DTZ001 times of columns have no zone
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """A change with the interface of the client's messages; without a row, it removes the row of its key."""

    at: int
    k: int
    row: Row | None

    def key(self) -> bytes:
        return json.dumps({"k": self.k}, separators=(",", ":")).encode()

    def value(self) -> bytes | None:
        if self.row is None:
            return None
        named = zip(SCHEMA.names, self.row, strict=True)
        shown = {name: value.isoformat() + "Z" if isinstance(value, dt.datetime) else value for name, value in named}
        return json.dumps({name: "NaN" if value != value else value for name, value in shown.items()}).encode()

    def headers(self) -> list[tuple[str, bytes]]:
        return [("dsms-ts", str(self.at).encode()), ("dsms-op", b"-" if self.row is None else b"u")]

    def __len__(self) -> int:
        return len(self.value() or b"")


VALUES = st.tuples(
    st.none() | st.integers(-2, 3),
    st.none() | st.sampled_from([-1.5, 0.0, -0.0, 0.5, 1.0, 2.0, float("nan")]),
    st.none() | st.sampled_from(["", "a", "b", "B", "é"]),
    st.none() | st.sampled_from(TIMES),
)
CHANGES = st.lists(st.tuples(st.integers(0, 40), st.none() | VALUES), max_size=60)
CONSTANTS = {
    "a": st.sampled_from(["-1", "0", "2", "1.5", "2.0", "'1'", "CAST('2' AS INT)", "2::bigint"]),
    "x": st.sampled_from(["-1.5", "0", "0.5", "1", "2.0", "-0.0"]),
    "s": st.sampled_from(["''", "'a'", "'b'", "'é'"]),
    "moment": st.sampled_from(["TIMESTAMP '2026-05-02 12:00:00'", "'2026-05-02 12:00:00'", "DATE '2026-05-02'"]),
}


@st.composite
def condition(draw: st.DrawFn) -> str:
    """A comparison of a column with constants."""
    column = draw(st.sampled_from(sorted(CONSTANTS)))
    one, other = draw(CONSTANTS[column]), draw(CONSTANTS[column])
    sign = draw(st.sampled_from(["=", "<", "<=", ">", ">=", "<>"]))
    return draw(
        st.sampled_from(
            [
                f"{column} {sign} {one}",
                f"{one} {sign} {column}",
                f"{column} IN ({one}, {other})",
                f"{column} BETWEEN {one} AND {other}",
                f"NOT {column} = {one}",
                f"({column} = {one} OR k = 3)",
                f"{column} IS NULL",
            ]
        )
    )


def answer_of(sql: str, rows: pa.Table) -> list[Row]:
    (statement,) = parse(sql)
    assert isinstance(statement, Select)
    return _sorted(typed_answer(one_time_query_of(statement.select, SESSION.catalog).over(lambda _: rows))[1])


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def of_duckdb(sql: str, rows: pa.Table) -> list[Row]:
    with duckdb.connect() as database:
        database.register("t", rows)
        return _sorted(database.execute(sql).fetchall())


def sought(sql: str) -> dict[str, Sought]:
    (statement,) = parse(sql)
    assert isinstance(statement, Select)
    return dict(sought_values(one_time_query_of(statement.select, SESSION.catalog)).get("t", {}))


class Relation:
    """A relation with indexes and, beside it, its rows by key."""

    def __init__(self) -> None:
        self.fold, self.instant = FollowedFold(keyed=True, at=0), 0
        self.table = DecodedTable(self.fold, SCHEMA, "json")
        self.model: dict[int, Row] = {}

    def change(self, changes: Sequence[tuple[int, Row | None]]) -> None:
        """Applies changes, each at an instant of its own."""
        for key, values in changes:
            self.instant += 1
            row = None if values is None else (key, *values)
            self.fold.add(piece_of([Record(self.instant, key, row)]), ("t", 0))
            self.model = {each: kept for each, kept in self.model.items() if each != key}
            self.model |= {} if row is None else {key: row}
        self.fold.advance(self.instant)

    def rows(self) -> pa.Table:
        """The rows that the changes leave."""
        return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in self.model.values()], SCHEMA)


@settings(max_examples=12)
@given(st.lists(st.tuples(CHANGES, st.lists(condition(), min_size=1, max_size=3)), min_size=1, max_size=3))
def test_with_an_index_without_one_and_in_duckdb(rounds: list[tuple[list[Any], list[str]]]) -> None:
    relation = Relation()
    relation.change([(key, (key % 5, key / 4, "abc"[key % 3], TIMES[key % 3])) for key in range(40)])
    for changes, conditions in rounds:
        relation.change(changes)
        sql = f"SELECT * FROM t WHERE {' AND '.join(conditions)}"
        expected = of_duckdb(sql, relation.rows())
        found = relation.table.at(relation.instant, seek=Seek(INDEXES, sought(sql))).table
        assert answer_of(sql, found) == answer_of(sql, relation.table.at(relation.instant).table) == expected


def test_an_index_narrows_the_rows() -> None:
    relation = Relation()
    relation.change([(key, (key, key / 2, "s", None)) for key in range(1_000)])
    for where, count in {
        "a = 7": 1,
        "a IN (7, 8, 9, 9, -1)": 3,
        "a > 990 AND k < 5": 10,
        "a BETWEEN 10 AND 19": 10,
        "s = 's' AND a >= 998": 2,
        "x <= 4.5": 10,
        "k = 7": 1_000,
        "a > 1": 1_000,
        "moment = '2026-05-02'": 0,
    }.items():
        seek = Seek(INDEXES, sought(f"SELECT * FROM t WHERE {where}"))
        assert relation.table.at(relation.instant, seek=seek).table.num_rows == count, where


def test_indexes_that_are_dropped_are_freed() -> None:
    relation = Relation()
    relation.change([(key, (key, 0.5, "s", None)) for key in range(1_000)])
    relation.table.at(relation.instant)
    alone = relation.table.memory
    relation.table.at(relation.instant, seek=Seek(INDEXES, {"a": Sought((7,))}))
    assert relation.table.memory == alone + (8 + 4) * 1_000  # the order, and a copy of the column
    relation.table.keep_indexes([])
    assert relation.table.memory == alone


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ({"a": Sought((1,)), "b": Sought(("x",))}, [3]),
        ({"a": Sought((1,)), "b": Sought(least="b", greatest="w")}, [1]),
        ({"a": Sought((1, 2)), "b": Sought(("x", "b"))}, [1, 3, 4]),
        ({"a": Sought((1,))}, [1, 3, 0]),
        ({"b": Sought(("x",))}, None),
        ({"a": Sought(("x",))}, None),
        ({"a": Sought(tuple(range(2_000)))}, None),
    ],
)
def test_columns_of_an_index(wanted: dict[str, Sought], places: list[int] | None) -> None:
    rows = pa.table({"a": [1, 1, None, 1, 2], "b": [None, "b", "x", "x", "b"]})
    assert SortedIndex(rows, ["a", "b"]).places(wanted) == places


def test_what_is_sought() -> None:
    assert sought("SELECT * FROM t WHERE a < 5 AND 2 <= a AND s = 'b' AND x > a") == {
        "a": Sought(least=2, greatest=5),
        "s": Sought(("b",)),
    }
    for where in ("CAST(x AS BIGINT) = 7", "a = 1 OR a = 2", "a = NULL", "a = k", "NOT a = 1", "a + 1 = 2"):
        assert sought(f"SELECT * FROM t WHERE {where}") == {}, where


def test_a_number_beyond_all_floats_is_not_sought_in_an_index() -> None:
    index = SortedIndex(pa.table({"x": [1.0, 2.0]}), ["x"])
    assert index.places({"x": Sought(values=(10**400,))}) is None
    assert index.places({"x": Sought(least=-(10**400))}) is None
