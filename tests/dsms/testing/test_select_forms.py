"""Forms of SELECT that DuckDB has too: the same text gives the same relation at every instant."""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support import duck_engine
from tests.support.strategies import examples

END = 6
SOURCES = (
    "REGISTER SOURCE A (k INT, v INT, s TEXT) FROM a; CREATE STREAM S OVER A KEY k; CREATE STREAM M OVER A KEY NULL;"
)
#: Comparisons of rows of values, with their meaning in standard SQL and PostgreSQL. In DuckDB two NULLs within rows are
#: equal.
ROWS = {
    "SELECT k FROM S WHERE (k, v) = (1, 2)": "SELECT k FROM S WHERE k = 1 AND v = 2",
    "SELECT k FROM S WHERE (k, v) <> (1, 2)": "SELECT k FROM S WHERE NOT (k = 1 AND v = 2)",
    "SELECT k FROM S WHERE (v, s) IN ((1, 'a'), (2, 'b'))":
        "SELECT k FROM S WHERE v = 1 AND s = 'a' OR v = 2 AND s = 'b'",
    "SELECT k FROM S WHERE (v, s) NOT IN ((1, 'a'))": "SELECT k FROM S WHERE NOT (v = 1 AND s = 'a')",
    "SELECT k FROM S WHERE (v, k) < (1, 2)": "SELECT k FROM S WHERE v < 1 OR v = 1 AND k < 2",
    "SELECT k, (v, k, s) >= (1, 2, 'b') AS x FROM S":
        "SELECT k, v > 1 OR v = 1 AND (k > 2 OR k = 2 AND s >= 'b') AS x FROM S",
    "SELECT k FROM M WHERE (k, v) BETWEEN (1, 2) AND (2, 1)":
        "SELECT k FROM M WHERE (k > 1 OR k = 1 AND v >= 2) AND (k < 2 OR k = 2 AND v <= 1)",
    "SELECT a.k, b.k AS other FROM S a JOIN M b ON (a.v, a.s) = (b.v, b.s)":
        "SELECT a.k, b.k AS other FROM S a JOIN M b ON a.v = b.v AND a.s = b.s",
}  # fmt: skip
#: Queries with another text in DuckDB, where generate_series in a select list is an array.
SPELLED = {
    **ROWS,
    "SELECT k, generate_series(1, v) AS g FROM S": "SELECT k, UNNEST(generate_series(1, v)) AS g FROM S",
}
QUERIES = [
    # aliases of the select list in later items and clauses
    "SELECT v + 1 AS w, w * 2 AS x, x - w AS y FROM S",
    "SELECT k AS v, v + 1 AS w FROM S",
    "SELECT s, count(*) AS n, n * 2 AS twice FROM M GROUP BY s HAVING n > 1",
    "SELECT sum(v) AS t, count(*) AS n, t + n AS both FROM M",
    "SELECT v AS a, (SELECT max(k) FROM S WHERE v = 1) + a AS b FROM S",
    "SELECT x FROM (SELECT v AS w, w + 1 AS x FROM S) WHERE x > 1",
    # changed columns of *
    "SELECT * EXCLUDE (v) FROM S",
    "SELECT * EXCLUDE v FROM S",
    "SELECT * REPLACE (v * 2 AS v, upper(s) AS s) FROM S",
    "SELECT * RENAME (v AS w) FROM S",
    "SELECT a.* EXCLUDE (s), b.* RENAME (k AS k2, v AS v2, s AS s2) FROM S a JOIN M b ON a.v = b.v",
    "SELECT * EXCLUDE (s) REPLACE (k + v AS v) FROM M",
    # the numbers of a range, alone or for each row
    "SELECT k, g FROM S, generate_series(1, 3) AS s(g)",
    "SELECT k, g * 2 AS h FROM M CROSS JOIN generate_series(0, v) AS g",
    "SELECT k, g FROM S CROSS JOIN LATERAL generate_series(k, 5, 2) AS t(g) WHERE g > v",
    "SELECT g, count(*) AS n FROM S, generate_series(1, 3) AS s(g) WHERE g <= v GROUP BY g",
    # the elements of an array, or the numbers of a range, in the select list
    "SELECT k, UNNEST(ARRAY[k, v]) AS x FROM M",
    "SELECT UNNEST(ARRAY[k, v]) + k AS x, s FROM S WHERE v > 0",
    "SELECT x, count(*) AS n FROM (SELECT UNNEST(ARRAY[k, v]) AS x FROM S) GROUP BY x",
    "SELECT k FROM S WHERE v IN (SELECT UNNEST(ARRAY[k, 2]))",
    # with their positions
    "SELECT k, x, n FROM M, UNNEST(ARRAY[k, v, NULL]) WITH ORDINALITY AS u(x, n)",
    "SELECT k, x, n FROM S CROSS JOIN LATERAL UNNEST(ARRAY[s, 'z']) WITH ORDINALITY AS u(x, n) WHERE n > 1 OR x = 'a'",
    "SELECT k, ordinality * 2 AS twice FROM S, UNNEST(ARRAY[v, k]) WITH ORDINALITY AS u",
    "SELECT k, x, n FROM M LEFT JOIN UNNEST(CASE WHEN v > 0 THEN ARRAY[k, v] END) WITH ORDINALITY AS u(x, n) ON TRUE",
    "SELECT n, SUM(x) AS t FROM S, UNNEST(ARRAY[k, v]) WITH ORDINALITY AS u(x, n) GROUP BY n",
    "SELECT k, (SELECT SUM(x * n) FROM UNNEST(ARRAY[a.k, a.v]) WITH ORDINALITY AS u(x, n)) AS t FROM S a",
    "SELECT * FROM M, UNNEST(ARRAY[k]) WITH ORDINALITY AS u(x, n) WHERE v IS NULL",
    # unions of columns of the same name
    "SELECT k, v FROM S UNION ALL BY NAME SELECT s, v FROM M",
    "SELECT k, v FROM S UNION BY NAME SELECT v, k FROM M",
    "SELECT v, v * 0.5 AS w FROM M UNION ALL BY NAME SELECT 7 AS w, k AS V FROM S",
    "SELECT k FROM S UNION BY NAME SELECT v FROM M UNION BY NAME SELECT s FROM S",
    "SELECT v, COUNT(*) AS n FROM (SELECT v FROM S UNION ALL BY NAME SELECT s, v FROM M) u GROUP BY v",
    "SELECT k FROM S a WHERE EXISTS (SELECT v FROM M b WHERE b.v = a.v UNION BY NAME SELECT s FROM M WHERE k = a.v)",
    # arrays of the rows of a query, and what they contain
    "SELECT k, ARRAY(SELECT b.v FROM M b WHERE b.k <= a.k ORDER BY b.v DESC NULLS LAST) AS x FROM S a",
    "SELECT k, ARRAY(SELECT v FROM S WHERE k = 1) AS x FROM M",
    "SELECT k, array_length(ARRAY(SELECT DISTINCT b.k FROM M b WHERE b.v = a.v)) AS n FROM S a",
    "SELECT 2 * 2 AS c, COUNT(*) AS n FROM S WHERE k > 100 GROUP BY ALL",
    "SELECT 4 AS c, (SELECT MAX(b.v) FROM M b) AS m, COUNT(*) n FROM S WHERE k > 9 GROUP BY ALL HAVING COUNT(*) < 3",
    "SELECT 4 AS c, k, COUNT(*) AS n FROM S GROUP BY ALL",
    "SELECT k, ARRAY(SELECT b.k FROM S b ORDER BY 1 DESC) AS x FROM S a",
    "SELECT k, (SELECT COUNT(*) FROM (SELECT array_length(ARRAY(SELECT c.v FROM M c WHERE c.k = b.k)) AS n FROM S b) d "
    "WHERE d.n = a.k - 1) AS x FROM S a",
    "SELECT k, ARRAY(SELECT -b.k AS y FROM S b WHERE b.k <> a.k ORDER BY y) AS x FROM S a",
    "SELECT k, array_length(ARRAY(SELECT UNNEST(ARRAY[a.k, a.v]) + 1)) AS n FROM S a",
    "SELECT k, ARRAY[k, v] @> ARRAY[1] AS a, ARRAY[2] <@ ARRAY[v, k] AS b, ARRAY[k, v] && ARRAY[v, 3] AS c FROM S",
    "SELECT k, ARRAY[k, 1] @> ARRAY[v] AND v IS NOT NULL AS a FROM S",
    "SELECT k, LAG(v IGNORE NULLS) OVER (ORDER BY k) AS a, LAST_VALUE(v IGNORE NULLS) OVER (ORDER BY k) AS b FROM S",
    "SELECT k FROM S WHERE v = ANY (ARRAY[1, 2]) OR s = ANY (ARRAY['a'])",
    "SELECT k FROM M WHERE NOT v = ANY (ARRAY[1, NULL])",
    *SPELLED,
]
RECORD = st.fixed_dictionaries(
    {
        "k": st.integers(1, 3),
        "v": st.sampled_from([None, 0, 1, 2]),
        "s": st.sampled_from([None, "a", "b"]),
        "ts": st.integers(0, END - 1),
        "op": st.sampled_from(["+", "+", "+", "-"]),
    }
)


def rows_at(records: list[dict], at: int, keyed: bool) -> list[list[object]]:
    """The last row of each key up to an instant, unless it is a deletion; without a key all insertions."""
    seen = [record for record in records if record["ts"] <= at]
    last = {record["k"] if keyed else place: record for place, record in enumerate(seen)}
    return [[record["k"], record["v"], record["s"]] for record in last.values() if record["op"] == "+"]


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duck_engine.connection()
    for name in "SM":
        connection.execute(f"CREATE TEMP TABLE {name} (k INT, v INT, s TEXT)")
    return connection


@settings(max_examples=examples(60))
@given(st.sampled_from(QUERIES), st.lists(RECORD, max_size=8))
def test_as_duckdb_at_every_instant(query: str, records: list[dict]) -> None:
    check(query, records, SPELLED.get(query, query))


@pytest.mark.parametrize("query", QUERIES)
def test_each_form(query: str) -> None:
    rows = [(1, 1, "a"), (2, 2, "b"), (3, 1, "a"), (1, 2, "b"), (2, None, "a")]
    records = [{"k": k, "v": v, "s": s, "ts": ts, "op": "+"} for ts, (k, v, s) in enumerate(rows)]
    check(query, records, SPELLED.get(query, query))


def check(query: str, records: list[dict], in_duck: str = "") -> None:
    """Compares the query with `in_duck`, by default the same text, at every instant."""
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    records = sorted(records, key=lambda record: record["ts"])
    session.push("A", records)
    session.advance(END)
    for at in range(END):
        for name in "SM":
            duck_engine.fill(duck(), name, rows_at(records, at, name == "S"))
        rows = Counter(repr(tuple(row.values())) for row in session.relation("V", at=at))
        assert rows == Counter(map(repr, duck().execute(in_duck or query).fetchall())), f"at {at}"


def test_a_sample_by_its_sql_name_is_that_of_cql() -> None:
    session = LocalSession()
    session.execute(
        f"{SOURCES} CREATE STREAMED VIEW V AS SELECT k, v FROM M TABLESAMPLE (50 PERCENT);"
        "CREATE STREAMED VIEW W AS SELECT k, v FROM M Sample(50)"
    )
    session.push("A", [{"k": k, "v": 0, "s": "", "ts": 0} for k in range(40)])
    session.advance(1)
    assert session.relation("V") == session.relation("W")
    assert 0 < len(session.relation("V")) < 40


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * EXCLUDE (nope) FROM S", '* has no column "nope"; have: k, v, s'),
        ("SELECT k FROM S WHERE (k, v) = (1, 2, 3)", "cannot compare a row of 2 values with a row of 3"),
        ("SELECT k FROM S TABLESAMPLE (10 ROWS)", "write TABLESAMPLE (10 PERCENT)"),
        ("SELECT * ILIKE 'a%' FROM S", "* ILIKE is not supported"),
        (
            "SELECT " + ", ".join(["k AS a0", *(f"a{at} + a{at} AS a{at + 1}" for at in range(30))]) + " FROM S",
            "too large",
        ),
        ("SELECT w AS x, v AS w FROM S", 'column "w" not found'),
        ("SELECT k, UNNEST(ARRAY[k]), COUNT(*) OVER () FROM S", "together with OVER or QUALIFY"),
        ("SELECT *, UNNEST(ARRAY[k]) AS e FROM S", "* together with UNNEST"),
        ("SELECT UNNEST(ARRAY[k], ARRAY[v]) FROM S", "UNNEST of several arrays"),
        ("SELECT * FROM S, UNNEST(ARRAY[v]) WITH ORDINALITY AS u(x, X)", 'two columns of UNNEST are named "x"'),
        ("SELECT * FROM S, UNNEST(v) WITH ORDINALITY AS u(x, n)", "UNNEST needs an array, not INTEGER"),
        ("SELECT k, k FROM S UNION BY NAME SELECT k FROM M", 'two columns of a side of UNION BY NAME are named "k"'),
        ("SELECT k FROM S UNION ALL BY NAME SELECT s AS k FROM M", 'column "k" of UNION has no common type'),
        ("SELECT k FROM S EXCEPT BY NAME SELECT k FROM M", "EXCEPT BY NAME is not supported here"),
        ("SELECT ARRAY(SELECT k, v FROM M) AS a FROM S", "with several columns"),
        ("SELECT ARRAY(SELECT * FROM M) AS a FROM S", "with several columns"),
        ("SELECT k FROM S WHERE UNNEST(ARRAY[k]) = 1", "UNNEST or generate_series is not supported here"),
        ("SELECT k FROM S WHERE (k, v) BETWEEN SYMMETRIC (3, 2) AND (1, 1)", "BETWEEN SYMMETRIC is not supported"),
        (
            "SELECT LAG(v, 10000000000000000000) IGNORE NULLS OVER (ORDER BY k) FROM S",
            "needs a whole number below 2147483648",
        ),
    ],
)
def test_wrong_selects_are_refused_with_the_reason(query: str, why: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(SqlError) as refused:
        session.execute(f"CREATE STREAMED VIEW V AS {query}")
    assert why in str(refused.value)


def test_a_series_in_a_query_that_runs_once() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE N (a INT PRIMARY KEY); INSERT INTO N VALUES (1), (2)")
    rows = session.execute("SELECT a, g FROM N, generate_series(a, 2) AS s(g) ORDER BY a, g")
    assert rows == [{"a": 1, "g": 1}, {"a": 1, "g": 2}, {"a": 2, "g": 2}]
    assert session.execute("SELECT a FROM N WHERE a = ANY (ARRAY[2, 3])") == [{"a": 2}]


SERIES = {
    "S LEFT JOIN generate_series(1, 3) AS s(g) ON TRUE": "this join of generate_series is not supported",
    "S, generate_series(1, 3, -1) AS s(g)": "the step of generate_series must be a positive integer",
    "S, generate_series(1, 3, k) AS s(g)": "the step of generate_series must be a positive integer",
    "S, generate_series(1, 3.5) AS s(g)": "generate_series needs two integers",
}


@pytest.mark.parametrize("items", SERIES)
def test_other_series_say_what_is_wrong(items: str) -> None:
    session = LocalSession()
    with pytest.raises(SqlError) as raised:
        session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT k, g FROM {items}")
    assert SERIES[items] in str(raised.value)


@pytest.mark.parametrize("kind", ["Istream", "Dstream"])
@pytest.mark.parametrize("operation", ["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
def test_a_stream_on_one_side_of_a_set_query_is_as_a_view_of_it(kind: str, operation: str) -> None:
    """CQL section 4: the stream of rows that enter or leave a window, combined with the rows of a window."""
    session, other = LocalSession(), f"{operation} SELECT id FROM B [Range 9]"
    session.execute("REGISTER SOURCE T (id INT) FROM t; CREATE STREAM B OVER T KEY NULL")
    session.execute(f"CREATE STREAMED VIEW Moved AS SELECT {kind}(id) FROM B [Range 5]")
    session.execute(f"CREATE STREAMED VIEW ByView AS SELECT id FROM Moved {other}")
    session.execute(f"CREATE STREAMED VIEW AtOnce AS SELECT {kind}(id) FROM B [Range 5] {other}")
    session.push("T", [{"id": number % 4, "ts": number * 3} for number in range(12)])
    session.advance(100)
    assert session.changes("AtOnce") == session.changes("ByView") != []
