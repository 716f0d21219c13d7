"""Point queries answer as DuckDB answers the SELECT from whose text they were made."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.model.statements import Select
from dsms.statements.registry import parse
from dsms.tables.one_time import typed_answer
from dsms.tables.one_time_query import one_time_query_of
from dsms.tables.point_query import PointQuery, point_query_of
from dsms.tables.text_shape import shape_of, with_numbers
from dsms.testing import LocalSession

#: Columns of timestamps have no zone.
LATE, EARLY = dt.datetime.fromisoformat("2026-01-01"), dt.datetime.fromisoformat("0001-01-01T00:00:00.000005")
SCHEMA = pa.schema([("k", pa.int32()), ("name", pa.string()), ("x", pa.float64()), ("at", pa.timestamp("us"))])
ROWS = pa.table(
    {
        "k": [1, 2, -3],
        "name": ["a", "O'Hara", None],
        "x": [0.1, float("nan"), None],
        "at": [LATE, None, EARLY],
    },
    schema=SCHEMA,
)


def catalog() -> Catalog:
    session = LocalSession()
    session.execute("CREATE TABLE t (k INT PRIMARY KEY, name TEXT, x DOUBLE, at TIMESTAMP)")
    return session.catalog


def point_query(sql: str, keys: tuple[str, ...] = ("k",)) -> tuple[PointQuery | None, tuple[int | str, ...]]:
    shape = shape_of(sql)
    if shape is None:
        return None, ()
    (statement,) = parse(with_numbers(shape.text))
    assert isinstance(statement, Select)
    return point_query_of(one_time_query_of(statement.select, catalog()), SCHEMA, keys, len(shape.values)), shape.values


def chosen(wanted: dict[str, tuple[int | str, ...]]) -> pa.Table:
    """The rows with the wanted values, computed by Python alone."""
    rows = [row for row in ROWS.to_pylist() if all(row[key] in values for key, values in wanted.items())]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t WHERE k = 1",
        "SELECT * FROM t WHERE k = 9",
        "select name, k from T where k = -3",
        "SELECT x.name AS n, at FROM t AS x WHERE 2 = x.k",
        "SELECT x, at FROM t WHERE k IN (1, 2, 2, -3)",
        "SELECT k FROM t WHERE (k = 2);",
        "SELECT k FROM t WHERE k = CAST('2' AS INT)",
        "SELECT k FROM t WHERE k IN (2::bigint, -'3'::int)",
        "SELECT k FROM t WHERE CAST(k AS BIGINT) = 2",
    ],
)
def test_the_answer_of_duckdb(sql: str) -> None:
    query, values = point_query(sql)
    assert query is not None
    rows = query.answer(chosen(dict(query.wanted(values))))  # type: ignore[arg-type]
    (statement,) = parse(sql)
    assert isinstance(statement, Select)
    columns, expected, types = typed_answer(one_time_query_of(statement.select, catalog()).over(lambda _: ROWS))
    written = [[value.isoformat() if isinstance(value, dt.datetime) else value for value in row] for row in expected]
    as_json = json.loads(json.dumps(written).replace("NaN", "null"))
    assert (query.shown, query.types, sorted(json.loads(rows.json), key=str)) == (
        columns,
        types,
        sorted(as_json, key=str),
    )
    assert sorted(repr(row) for row in rows) == sorted(repr(tuple(row)) for row in written)


def test_two_key_columns_take_the_literals_in_any_order() -> None:
    query, values = point_query("SELECT k FROM t WHERE name IN ('b', 'c''d') AND k = -7", ("k", "name"))
    assert query is not None
    assert query.wanted(values) == {"k": (-7,), "name": ("b", "c'd")}


@pytest.mark.parametrize("condition", ["name = CAST('5' AS BIGINT)", "name = 5"])
def test_what_the_language_refuses_is_not_a_point_query(condition: str) -> None:
    assert point_query(f"SELECT k FROM t WHERE {condition}", ("name",))[0] is None


def test_numbers_that_are_cast_to_texts() -> None:
    query, values = point_query("SELECT k FROM t WHERE name IN (CAST(5 AS TEXT), '7')", ("name",))
    assert query is not None
    assert query.wanted(values) == {"name": ("5", "7")}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT k FROM t WHERE k = 1 AND x IS NULL",
        "SELECT k FROM t WHERE k = 1 AND k = 2",
        "SELECT k FROM t WHERE k = 1 OR k = 2",
        "SELECT k FROM t WHERE k > 1",
        "SELECT k FROM t WHERE k = 1 AND x > 2",
        "SELECT k FROM t WHERE name = 'a'",
        "SELECT k, 5 AS five FROM t WHERE k = 1",
        "SELECT k + k AS two FROM t WHERE k = 1",
        "SELECT count(*) FROM t WHERE k = 1",
        "SELECT DISTINCT k FROM t WHERE k = 1",
        "SELECT k FROM t WHERE k = 1 LIMIT 0",
        "SELECT k FROM t WHERE k = 1 ORDER BY x",
        "SELECT K FROM t WHERE k = 1",
        "SELECT k, k FROM t WHERE k = 1",
        "SELECT x AS k FROM t WHERE k = 1",
        "SELECT k FROM t, (SELECT 2) AS o WHERE k = 1",
        "SELECT k FROM t WHERE k = 1 AND EXISTS (SELECT 3)",
        "SELECT k FROM t WHERE NOT k = 1",
        "SELECT k FROM t WHERE k = 1::smallint",
        "SELECT k FROM t WHERE CAST(k AS SMALLINT) = 1",
        "SELECT k FROM t WHERE k = 1.0",
        "SELECT k FROM t WHERE k = 1 -- AND k = 2",
        "WITH c AS (SELECT * FROM t) SELECT k FROM c WHERE k = 1",
        "SELECT k FROM t WHERE k = 1 UNION SELECT k FROM t WHERE k = 2",
    ],
)
def test_not_a_point_query(sql: str) -> None:
    assert point_query(sql)[0] is None


@given(st.lists(st.one_of(st.integers(0, 2**62), st.text()), max_size=5))
def test_the_shape_keeps_all_but_the_values(values: list[int | str]) -> None:
    def text(given: list[int | str]) -> str:
        quoted = [str(each) if isinstance(each, int) else "'" + each.replace("'", "''") + "'" for each in given]
        return f"""SELECT "it's 7", t2.x1 FROM t WHERE k IN ({", ".join(quoted)}) AND x > 1.5"""

    shape = shape_of(text(values))
    assert shape is not None
    assert shape.values == tuple(values)
    assert shape.text == text([0 if isinstance(each, int) else "" for each in values])


@pytest.mark.parametrize("sql", ["SELECT E'a\\'b'", "SELECT $1", "SELECT $$1$$", "SELECT 1 /* 2 */", "SELECT X'01'"])
def test_a_text_whose_literals_are_hard_to_tell_has_no_shape(sql: str) -> None:
    assert shape_of(sql) is None
