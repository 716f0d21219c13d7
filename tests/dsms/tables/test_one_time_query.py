"""One-time statements can use the language's functions and the catalog's objects, and nothing else of DuckDB."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dsms.model import statements as st
from dsms.statements.registry import parse
from dsms.tables.engine_split import with_engine_calls
from dsms.tables.one_time import refusal_of
from dsms.tables.one_time_query import one_time_query_of
from dsms.testing import LocalSession
from operators.core.errors import SqlError, UserError

TABLES = """
    CREATE TABLE Hot (id INT PRIMARY KEY, name VARCHAR, marks INT[]);
    CREATE TABLE Cold (id INT PRIMARY KEY, name VARCHAR);
    INSERT INTO Hot VALUES (1, 'a', [10, 20]), (2, 'b', [30]);
    INSERT INTO Cold VALUES (1, 'x')
"""
REFERENCE = (Path(__file__).parents[3] / "docs" / "functions.md").read_text()
#: The names in capitals in the reference: functions, aggregates, functions with OVER, and their other names.
DOCUMENTED = {name.lower() for name in re.findall(r"\b[A-Z][A-Z_0-9]+\b", REFERENCE)}
#: The words in texts for DuckDB that look like functions.
WRITTEN = {"select", "unnest", "__elements"}
NO_ROWS = pa.table({})


@pytest.fixture(scope="module")
def session() -> LocalSession:
    made = LocalSession()
    made.execute(TABLES)
    return made


def asked(session: LocalSession, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in session.execute(sql)]


def duckdb_functions() -> list[str]:
    found = duckdb.sql(r"SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name SIMILAR TO '\w+'")
    return sorted(name for (name,) in found.fetchall())


def test_no_function_of_duckdb_passes_that_the_language_does_not_document(session: LocalSession) -> None:
    """For calls of any name, the text for DuckDB calls only functions of the reference."""
    called: set[str] = set()
    passed = 0
    for name in duckdb_functions():
        for call in (f"{name}()", f"{name}(1)", f"{name}(1, 2)", f'"{name}"(1)', f"system.{name}(1)"):
            try:
                (statement,) = parse(f"SELECT {call}")
                assert isinstance(statement, st.Select)
                asked = with_engine_calls(
                    one_time_query_of(statement.select, session.catalog).over(lambda _: NO_ROWS), refusal_of
                )
                called |= set(re.findall(r"(\w+)\"? ?\(", asked.sql.lower()))
            except (SqlError, UserError):
                continue
            passed += 1
    assert passed > 100
    assert {name for name in called if not name.startswith("engine_")} - DOCUMENTED - WRITTEN == set()


@pytest.mark.parametrize(
    "example",
    sorted(set(re.findall(r"^\| [A-Z_0-9]+ \| `([^`]+)` \|", REFERENCE, re.MULTILINE))),
)
def test_the_examples_of_the_reference_pass(session: LocalSession, example: str) -> None:
    (statement,) = parse(f"SELECT {example.replace(chr(92) + '|', '|')} FROM Hot")
    assert isinstance(statement, st.Select)
    assert one_time_query_of(statement.select, session.catalog).objects == {"relation 0": "Hot"}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT pg_sleep(1)", 'line 1, column 8: function "pg_sleep" not found'),
        ("SELECT sleep_ms(1)", '"sleep_ms" not found'),
        ("SELECT write_log('x')", '"write_log" not found'),
        ("SELECT current_setting('threads')", '"current_setting" not found'),
        ("SELECT getvariable('x')", '"getvariable" not found'),
        ("SELECT list(unnest(range(120000000)))", '"range" not found'),
        ("SELECT unnest(generate_series(1, 30000))", "a second UNNEST or generate_series"),
        ("SELECT * FROM range(30000), range(30000)", "not supported here"),
        ("SELECT * FROM Hot, LATERAL range(id)", '"range" not found'),
        ("SELECT * FROM UNNEST(range(30000)) AS u(x)", '"range" not found'),
        ("SELECT list(generate_series(1, 120000000))", "generate_series over groups"),
        ("SELECT * FROM read_csv('/etc/passwd')", "not supported here"),
        ("SELECT * FROM '/etc/passwd'", "not found"),
        ("SELECT * FROM duckdb_settings()", "not supported here"),
        ("SELECT * FROM sqlite_master", 'line 1, column 15: "sqlite_master" not found'),
        ("SELECT * FROM information_schema.Hot", "has a qualifier"),
        ("SELECT * FROM Hot WHERE id IN (SELECT getvariable('x'))", '"getvariable" not found'),
        ("SELECT * INTO stolen FROM Hot", '"INTO" is not supported'),
        ("WITH a AS (SELECT 1 AS id) INSERT INTO Hot SELECT id FROM a", "is not a query"),
        ("INSERT INTO Cold SELECT 7, current_setting('threads')", '"current_setting" not found'),
        ("UPDATE Cold SET name = getvariable('x')", '"getvariable" not found'),
        ("DELETE FROM Cold WHERE sleep_ms(1) IS NULL", '"sleep_ms" not found'),
        ("PRAGMA version", "does not start a statement"),
        ("ATTACH '/tmp/x.db'", "does not start a statement"),
        ("COPY (SELECT 1) TO '/tmp/x'", "is not a valid table name"),
        ("SET threads = 8", "does not start a statement"),
    ],
)
def test_constructs_outside_the_language_are_refused(session: LocalSession, sql: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        session.execute(sql)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT hot.id FROM HOT ORDER BY 1", [(1,), (2,)]),
        ("SELECT h.name FROM R(hot) h WHERE h.id = 2", [("b",)]),
        ("SELECT hot.name FROM R(hot) WHERE hot.id = 2", [("b",)]),
        ("SELECT a.id, b.name FROM Hot a JOIN Cold b ON a.id = b.id", [(1, "x")]),
        ("SELECT count(*) FROM Hot a, Hot b", [(4,)]),
        ("WITH Hot AS (SELECT id + 10 AS id FROM Hot) SELECT id FROM Hot ORDER BY 1", [(11,), (12,)]),
        ("WITH a AS (SELECT 7 AS id), b AS (SELECT id FROM a) SELECT id FROM b", [(7,)]),
        ("SELECT (WITH Cold AS (SELECT 9 AS id) SELECT max(id) FROM Cold), id FROM Cold", [(9, 1)]),
        ("SELECT id FROM Cold UNION ALL (WITH Cold AS (SELECT 5 AS id) SELECT id FROM Cold)", [(1,), (5,)]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT sum(i) FROM n", [(6,)]),
        ("SELECT id, x FROM Hot, UNNEST(Hot.marks) AS u(x) ORDER BY x", [(1, 10), (1, 20), (2, 30)]),
        ("SELECT array_length(list(id)) FROM Hot", [(2,)]),
        ("SELECT v.a FROM (VALUES (1, 2)) v(a, b)", [(1,)]),
    ],
)
def test_names_are_those_of_the_catalog_or_of_common_tables_in_scope(
    session: LocalSession, sql: str, rows: list[tuple[object, ...]]
) -> None:
    assert asked(session, sql) == rows


def test_each_object_is_read_once_and_spelled_as_in_the_catalog(session: LocalSession) -> None:
    (statement,) = parse("SELECT 1 FROM HOT, R(hot) b, cold")
    assert isinstance(statement, st.Select)
    assert one_time_query_of(statement.select, session.catalog).objects == {"relation 0": "Hot", "relation 1": "Cold"}


WRITTEN_BY_USERS = """
CREATE AGGREGATE longest(next VARCHAR): VARCHAR { INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (next); } };
CREATE AGGREGATE max(next INT): INT { INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (next); } };
CREATE FUNCTION twice(a INT) RETURNS INT LANGUAGE PYTHON HANDLER 'twice' AS $$
def twice(a): return a
$$
"""


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT longest(name) FROM Hot", "longest"),
        ("SELECT id FROM Hot WHERE id = (SELECT max(id) FROM Cold)", "max"),
        ("SELECT twice(id) FROM Hot", "twice"),
        ("SELECT text_concat(name) FROM Hot", "text_concat"),
        ("DELETE FROM Hot WHERE id = (SELECT max(id) FROM Hot)", "max"),
    ],
)
def test_user_defined_functions_are_refused_with_an_alternative_in_one_time_selects(sql: str, name: str) -> None:
    session = LocalSession()
    session.execute(TABLES + ";" + WRITTEN_BY_USERS)
    with pytest.raises(SqlError, match=f'"{name}" is user-defined.*CREATE VIEW v AS SELECT {name}'):
        session.execute(sql)
    assert session.execute("SELECT min(id) AS least FROM Hot") == [{"least": 1}]


def test_calls_with_another_name_in_duckdb_give_the_same_values() -> None:
    made = LocalSession()
    made.execute("CREATE TABLE public.Calls (id INT PRIMARY KEY, n TEXT, a INT[], j TEXT)")
    made.execute("INSERT INTO public.Calls VALUES (1, 'abcdef', ARRAY[1, 2], '{\"a\":[5,6]}')")
    calls = {
        "format('%s of %s: 5%%', id, n)": "1 of abcdef: 5%", "format('')": "",
        "overlay(n PLACING 'XY' FROM 2)": "aXYdef", "n SIMILAR TO '%(b|x)_+'": True, "n SIMILAR TO 'a.c'": False,
        "overlay(n PLACING 'hom' FROM 2 FOR 4)": "ahomf", "j #>> '{a,1}'": "6", "array_remove(a, 1)": [2],
        "array_position(a, 2)": 2, "array_prepend(0, a)": [0, 1, 2], "list_prepend(0, a)": [0, 1, 2],
        "translate(n, 'ab', 'x')": "xcdef", "a[1:1]": [1], "2 = ANY(a)": True, "string_to_array(n, 'c')": ["ab", "def"],
        "str_split(n, 'c')": ["ab", "def"], "chr(65)": "A", "ascii(n)": 97,
        "json_build_object('a', id)": '{"a":1}', "json_object('a': json_build_array(n))": '{"a":["abcdef"]}',
        "json_object('a', coalesce(json_array(id), n), 'b', (to_json(a)))": '{"a":"[1]","b":[1,2]}',
        "to_jsonb(a)": "[1,2]", "json_array(id, NULL)": "[1,null]",
    }  # fmt: skip
    for call, value in calls.items():
        assert asked(made, f"SELECT {call} AS x FROM public.calls") == [(value,)], call


def test_division_is_that_of_continuous_queries(session: LocalSession) -> None:
    sql = "SELECT 7 / 2, -7 / 2, 7 / 2.0, id / (3 - id), id % 2, SUM(id) / COUNT(*) FROM Hot GROUP BY id"
    assert sorted(asked(session, sql), key=str) == [(3, -3, 3.5, 0, 1, 1), (3, -3, 3.5, 2, 0, 2)]


@pytest.mark.parametrize("value", ["id / (id - 1)", "id % (id - 1)", "1.0 / 0", "SQRT(-1.0)", "CAST('2.5' AS INT)"])
def test_expression_without_a_value_fails_the_statement(session: LocalSession, value: str) -> None:
    for sql in (f"SELECT {value} FROM Hot", f"SELECT id FROM Hot WHERE {value} > 0", f"UPDATE Cold SET id = {value}"):
        with pytest.raises(SqlError, match="division by zero|negative number|cannot cast"):
            session.execute(sql)
    assert asked(session, f"SELECT CASE WHEN id > 9 THEN {value} END FROM Hot") == [(None,), (None,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT h.id FROM Hot h JOIN Cold c ON h.id = c.id WHERE 1 / (h.id - 2) < 0",
        "SELECT h.id FROM Hot h, Cold c WHERE h.id = c.id AND 1 / (h.id - 2) < 0",
        "SELECT h.id FROM Hot h JOIN Cold c ON h.id = c.id AND 1 / (h.id - 2) < 0",
        "SELECT q.id FROM (SELECT h.id, c.name FROM Hot h JOIN Cold c ON h.id = c.id) q WHERE 1 / (q.id - 2) < 0",
        "SELECT id FROM Hot WHERE 1 / (id - 2) < 0 AND id <> 2",
        "SELECT id FROM Hot WHERE id IN (SELECT id FROM Cold) AND 1 / (id - 2) < 0",
    ],
)
def test_a_row_that_is_not_joined_or_is_left_out_has_no_fault(session: LocalSession, sql: str) -> None:
    assert asked(session, sql) == [(1,)]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id + 1, (id + 1) * 2, COUNT(*) FROM Hot GROUP BY id + 1 ORDER BY id + 1", [(2, 4, 1), (3, 6, 1)]),
        ("SELECT id + 1 AS n FROM Hot GROUP BY n HAVING SUM(id * 2) > 2 ORDER BY n", [(3,)]),
        ("SELECT DISTINCT UPPER(name) FROM Hot ORDER BY UPPER(name)", [("A",), ("B",)]),
        ("SELECT RANK() OVER (ORDER BY -id), SUM(id * 2) OVER () + 1 FROM Hot ORDER BY id", [(2, 7), (1, 7)]),
        ("SELECT (SELECT MAX(id) + 1 FROM Cold) * 10 + id FROM Hot ORDER BY 1", [(21,), (22,)]),
        ("SELECT STRING_AGG(UPPER(name), ',' ORDER BY -id) || '!' FROM Hot", [("B,A!",)]),
        ("SELECT x * 2 FROM Hot, UNNEST(marks) AS u(x) WHERE x % 20 = 10 ORDER BY -x", [(60,), (20,)]),
        ("SELECT (1, NULL) = (1, NULL), (1, NULL) = (2, NULL), 7 / 2.0", [(None, False, Decimal("3.500000"))]),
        ("SELECT id FROM Hot h WHERE NOT EXISTS (SELECT 1 FROM Cold c WHERE c.id * 1 = h.id)", [(2,)]),
    ],
)
def test_expressions_may_be_in_every_clause(session: LocalSession, sql: str, rows: list[tuple[object, ...]]) -> None:
    assert asked(session, sql) == rows
