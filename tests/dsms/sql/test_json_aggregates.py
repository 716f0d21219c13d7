"""JSON aggregates and functions that return rows, in views at every instant and in SELECTs that run once, compared with
DuckDB."""

from __future__ import annotations

import json
from collections import Counter

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError

DECLARED = "REGISTER SOURCE T (id INT, k VARCHAR, v INT) FROM t; CREATE STREAM S OVER T KEY id"
#: The aggregate, and DuckDB's.
AGGREGATES = {
    "json_agg(v ORDER BY id)": "to_json(list(v ORDER BY id))",
    "jsonb_agg(k ORDER BY id DESC)": "to_json(list(k ORDER BY id DESC))",
    "json_group_array(v ORDER BY id) FILTER (WHERE v > 0)": "to_json(list(v ORDER BY id) FILTER (WHERE v > 0))",
    "jsonb_agg(jsonb_build_object('k', k) ORDER BY id)": "to_json(list(json_object('k', k) ORDER BY id))",
    "jsonb_build_object('all', jsonb_agg(v ORDER BY id))": "json_object('all', to_json(list(v ORDER BY id)))",
    "json_object_agg(id, v ORDER BY id)": "json_group_object(id::VARCHAR, v)",
    "jsonb_object_agg(id, k)": "json_group_object(id::VARCHAR, k)",
}
LIST = ", ".join(f"{call} AS a{number}" for number, call in enumerate(AGGREGATES))
REFERENCE = ", ".join(AGGREGATES.values())
ROW = st.tuples(st.integers(0, 3), st.sampled_from(['"', "é", "", None]), st.none() | st.integers(-9, 9))


def expected(rows: list[tuple[object, ...]]) -> Counter[str]:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE S (id INT, k VARCHAR, v INT)")
        if rows:
            engine.executemany("INSERT INTO S VALUES (?, ?, ?)", rows)
        return documents(engine.execute(f"SELECT id % 2 AS half, {REFERENCE} FROM S GROUP BY half").fetchall())


def documents(rows: list[tuple[object, ...]]) -> Counter[str]:
    """The rows, with their JSON in one notation."""
    read = [[json.loads(value) if isinstance(value, str) else value for value in row] for row in rows]
    return Counter(json.dumps(row, sort_keys=True) for row in read)


@settings(max_examples=5)
@given(pushed=st.lists(ROW, max_size=6), batch=st.sampled_from([None, 2]))
def test_views_equal_duckdb_at_every_instant(pushed, batch: int | None) -> None:
    session = LocalSession(2, batch)
    session.execute(f"{DECLARED}; CREATE VIEW V AS SELECT id % 2 AS half, {LIST} FROM S GROUP BY half")
    session.push("T", [{"id": id_, "k": k, "v": v, "ts": at} for at, (id_, k, v) in enumerate(pushed)])
    session.advance(len(pushed) + 1)
    for at in range(len(pushed)):
        rows = {row[0]: row for row in pushed[: at + 1]}
        assert documents([tuple(row.values()) for row in session.relation("V", at)]) == expected(list(rows.values()))


def test_a_select_that_runs_once_equals_duckdb() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE S (id INT PRIMARY KEY, k VARCHAR, v INT)")
    rows = [(1, '"', 5), (2, None, -1), (3, "é", None), (4, "x", 7)]
    session.execute("INSERT INTO S VALUES (1, '\"', 5), (2, NULL, -1), (3, 'é', NULL), (4, 'x', 7)")
    answer = session.execute(f"SELECT id % 2 AS half, {LIST} FROM S GROUP BY half")
    assert documents([tuple(row.values()) for row in answer]) == expected(rows)
    assert session.execute("SELECT json_agg(v) AS a, json_object_agg(id, v) AS o FROM S WHERE FALSE") == [
        {"a": None, "o": None}
    ]


ROWS_OF_JSON = [(1, '[1, "a", null, {"b": [2]}]'), (2, "[]"), (3, '{"x": 1, "y": null}'), (4, None)]
CALLS = [
    ("SELECT k, e FROM J, jsonb_array_elements(J.j) AS e", [(1, "1"), (1, '"a"'), (1, "null"), (1, '{"b":[2]}')]),
    (
        "SELECT k, e FROM J CROSS JOIN LATERAL json_array_elements_text(j) AS x(e)",
        [(1, "1"), (1, "a"), (1, None), (1, '{"b":[2]}')],
    ),
    ("SELECT k, n FROM J, jsonb_array_elements(j) WITH ORDINALITY AS x(e, n)", [(1, 1), (1, 2), (1, 3), (1, 4)]),
    ("SELECT k, e FROM J, json_array_elements_text(j->3->'b') AS e", [(1, "2")]),
    ("SELECT k, jsonb_typeof(j->'x') AS kind FROM J WHERE k = 3", [(3, "number")]),
    ("SELECT k, jsonb_object_keys(j) AS name FROM J", [(3, "x"), (3, "y")]),
    ("SELECT k, jsonb_typeof(j) AS kind FROM J", [(1, "array"), (2, "array"), (3, "object"), (4, None)]),
    (
        "SELECT k, e FROM J LEFT JOIN json_object_keys(j) AS e ON TRUE",
        [(1, None), (2, None), (3, "x"), (3, "y"), (4, None)],
    ),
    ("SELECT k, s FROM J, string_to_table('a,b', ',') AS s WHERE k = 1", [(1, "a"), (1, "b")]),
]


@pytest.mark.parametrize(("select", "rows"), CALLS)
def test_functions_return_rows_in_views_and_once(select: str, rows: list[tuple[object, ...]]) -> None:
    """As in PostgreSQL, but a value of another kind has no rows instead of stopping the query."""
    session = LocalSession()
    session.execute("CREATE TABLE J (k INT PRIMARY KEY, j VARCHAR)")
    for k, text in ROWS_OF_JSON:
        session.execute(f"INSERT INTO J VALUES ({k}, {'NULL' if text is None else repr(text)})")
    session.execute(f"CREATE VIEW V AS {select}")
    assert Counter(tuple(row.values()) for row in session.execute(select)) == Counter(rows)
    assert Counter(tuple(row.values()) for row in session.execute("SELECT * FROM V")) == Counter(rows)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("1", "number"), ("1e400", "number"), ("true", "boolean"), ("null", "null"), ('"x"', "string"), ("{}", "object")],
)
def test_kinds_are_those_of_postgresql(text: str, kind: str) -> None:
    assert LocalSession().execute(f"SELECT json_typeof('{text}') AS kind") == [{"kind": kind}]


def test_distinct_values_are_kept_once() -> None:
    rows = LocalSession().execute("SELECT json_agg(DISTINCT x) AS a FROM (VALUES (2), (1), (2), (NULL)) AS t(x)")
    assert sorted(json.loads(rows[0]["a"]), key=str) == [1, 2, None]


def test_columns_are_named_after_the_calls() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE J (k INT PRIMARY KEY, j VARCHAR); INSERT INTO J VALUES (1, '[1]')")
    assert list(session.execute("SELECT jsonb_agg(k), json_object_agg(k, k) FROM J")[0]) == [
        "jsonb_agg",
        "json_object_agg",
    ]
    assert list(session.execute("SELECT jsonb_array_elements(j) FROM J")[0]) == ["jsonb_array_elements"]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT json_agg(k) OVER () FROM J", '"json_agg" not found'),
        ("SELECT json_agg(DISTINCT k ORDER BY k) FROM J", "DISTINCT with ORDER BY in a JSON aggregate"),
        ("SELECT jsonb_agg() FROM J", "JSON_AGG of 0 arguments"),
        ("SELECT jsonb_agg(k, j) FROM J", "JSON_AGG of 2 arguments"),
        ("SELECT json_agg(k, j) FROM J", "invalid expression"),
        ("SELECT json_agg(DISTINCT k, j) FROM J", "DISTINCT of several values in JSON_AGG"),
        ("SELECT system.json_agg(k) FROM J", "json_agg"),
        ("SELECT jsonb_array_elements() FROM J", '"json_elements" does not take'),
        ("SELECT jsonb_array_elements(j, j) FROM J", '"json_elements" does not take'),
        ("SELECT jsonb_object_agg() FROM J", "unexpected end"),
        ("SELECT json_object_agg(k) FROM J", "JSON_OBJECT_AGG without a name and a value"),
        ("SELECT jsonb_array_elements('[') FROM J", "invalid JSON"),
        ("SELECT json_arrayagg(k) FROM J", '"json_arrayagg" not found; JSON_AGG'),
        ("SELECT gen_random_uuid() AS u FROM J", "results must depend on the logs alone"),
    ],
)
def test_other_calls_are_refused(select: str, message: str) -> None:
    session = LocalSession()
    session.execute("CREATE TABLE J (k INT PRIMARY KEY, j VARCHAR); INSERT INTO J VALUES (1, '[1]')")
    with pytest.raises(UserError, match=message) as caught:
        session.execute(select)
    assert isinstance(caught.value, SqlError)


def test_a_null_as_a_name_is_a_fault() -> None:
    with pytest.raises(UserError, match="NULL"):
        LocalSession().execute("SELECT json_object_agg(CAST(NULL AS VARCHAR), 1)")
