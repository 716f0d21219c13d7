"""ASOF JOIN at every instant, compared with DuckDB: with its ASOF JOIN if times are unique, else with a correlated
subquery."""

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

END = 8
SOURCES = """REGISTER SOURCE A (id INT, k TEXT, t INT, x INT) FROM a;
REGISTER SOURCE B (k TEXT, t BIGINT, y INT, z TEXT) FROM b;
CREATE STREAM S OVER A KEY id; CREATE STREAM E OVER A KEY NULL;
CREATE STREAM D OVER B KEY (k, t); CREATE STREAM L OVER B KEY NULL;"""
#: Queries whose text is the same in DuckDB.
UNIQUE = [
    "SELECT S.id, S.k, S.t, x, D.t AS u, y, z FROM S ASOF JOIN D ON S.k = D.k AND S.t >= D.t",
    "SELECT S.id, D.k, D.t AS u, y FROM S ASOF LEFT JOIN D ON D.k = S.k AND D.t < S.t",
    "SELECT S.id, D.t AS u, y FROM S ASOF LEFT JOIN D ON S.k = D.k AND S.t <= D.t WHERE y IS NULL OR y > 1",
    "SELECT S.id, D.t AS u, y FROM S ASOF JOIN D ON S.k = D.k AND S.t < D.t WHERE x > 0",
    "SELECT id, k, t, y, z FROM S ASOF JOIN D USING (k, t)",
    "SELECT S.id, y FROM S ASOF LEFT JOIN D ON S.k || 'a' = D.k AND S.t + 1 >= D.t * 2",
    "SELECT z, count(*) AS n, sum(x) AS s FROM S ASOF LEFT JOIN D ON S.k = D.k AND S.t >= D.t GROUP BY z",
    "SELECT O.id, P.id AS p, y FROM S O, S P ASOF JOIN D ON P.k = D.k AND P.t >= D.t WHERE O.id < P.id",
]
#: Queries with their equivalents in DuckDB.
TIED = {
    "SELECT S.id, L.t AS u, y, z FROM S ASOF LEFT JOIN L ON S.k = L.k AND S.t >= L.t":
        """SELECT id, b.t, b.y, b.z FROM S LEFT JOIN LATERAL
            (SELECT * FROM L WHERE L.k = S.k AND L.t <= S.t ORDER BY L.t DESC, L.y, L.z LIMIT 1) b ON TRUE""",
    "SELECT E.x, L.t AS u, z FROM E ASOF JOIN L ON E.k = L.k AND E.t < L.t":
        """SELECT x, b.t, b.z FROM E JOIN LATERAL
            (SELECT * FROM L WHERE L.k = E.k AND L.t > E.t ORDER BY L.t, L.y, L.z LIMIT 1) b ON TRUE""",
    "SELECT S.id, L.t AS u, y FROM S ASOF JOIN L ON S.t > L.t":
        """SELECT id, b.t, b.y FROM S JOIN LATERAL
            (SELECT * FROM L WHERE L.t < S.t ORDER BY L.t DESC, L.k, L.y, L.z LIMIT 1) b ON TRUE""",
}  # fmt: skip
KEY, SMALL, INSTANT = (
    st.sampled_from([None, "a", "aa"]),
    st.one_of(st.none(), st.integers(0, 3)),
    st.integers(0, END - 1),
)
OP = st.sampled_from(["+", "+", "-"])
LEFT = st.lists(
    st.fixed_dictionaries({"id": st.integers(1, 3), "k": KEY, "t": SMALL, "x": SMALL, "ts": INSTANT, "op": OP}),
    max_size=7,
)
RIGHT = st.lists(
    st.fixed_dictionaries({"k": KEY, "t": SMALL, "y": SMALL, "z": st.sampled_from("pq"), "ts": INSTANT, "op": OP}),
    max_size=9,
)


def by_key(records: list[dict], at: int, *keys: str) -> list[dict]:
    """The last record of each key up to an instant, unless it is a deletion; without keys all insertions."""
    seen = [record for record in records if record["ts"] <= at]
    if not keys:
        return [record for record in seen if record["op"] == "+"]
    last = {tuple(record[key] for key in keys): record for record in seen}
    return [record for record in last.values() if record["op"] == "+"]


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duck_engine.connection()
    for name, columns in {"S": "id INT, k TEXT, t INT, x INT", "D": "k TEXT, t BIGINT, y INT, z TEXT"}.items():
        for table in (name, {"S": "E", "D": "L"}[name]):
            connection.execute(f"CREATE TEMP TABLE {table} ({columns})")
    return connection


def answer(query: str, left: list[dict], right: list[dict], at: int) -> Counter:
    tables = {
        "S": by_key(left, at, "id"),
        "E": by_key(left, at),
        "D": by_key(right, at, "k", "t"),
        "L": by_key(right, at),
    }
    for name, rows in tables.items():
        columns = ("id", "k", "t", "x") if name in "SE" else ("k", "t", "y", "z")
        duck_engine.fill(duck(), name, [[row[column] for column in columns] for row in rows])
    return Counter(duck().execute(query).fetchall())


def check(query: str, oracle: str, left: list[dict], right: list[dict], cut: tuple[int, int | None]) -> None:
    session = LocalSession(*cut)
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    left, right = (sorted(records, key=lambda record: record["ts"]) for records in (left, right))
    session.push("A", left)
    session.push("B", right)
    session.advance(END)
    for at in range(END):
        rows = Counter(tuple(row.values()) for row in session.relation("V", at=at))
        assert rows == answer(oracle, left, right, at), f"at {at}"


CUT = st.sampled_from([(1, None), (1, 1), (3, 2)])


@settings(max_examples=examples(40))
@given(st.sampled_from(UNIQUE), LEFT, RIGHT, CUT)
def test_as_duckdb_where_times_are_unique(query, left, right, cut) -> None:
    check(query, query, left, right, cut)


@settings(max_examples=examples(30))
@given(st.sampled_from(sorted(TIED)), LEFT, RIGHT, CUT)
def test_ties_go_by_the_columns_of_the_right_side(query, left, right, cut) -> None:
    check(query, TIED[query], left, right, cut)


@pytest.mark.parametrize("query", [*UNIQUE, *TIED])
def test_every_query_runs(query) -> None:
    left = [{"id": at, "k": "a", "t": at % 4, "x": at, "ts": at, "op": "+"} for at in range(END)]
    right = [{"k": k, "t": at % 4, "y": at, "z": "p", "ts": at, "op": "+"} for at in range(END) for k in ("a", "aa")]
    check(query, TIED.get(query, query), left, right, (2, 3))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT S.id FROM S ASOF JOIN D ON S.k = D.k", "by >=, >, <= or <, not 0"),
        ("SELECT S.id FROM S ASOF JOIN D ON S.t > D.t AND S.x > D.y", "by >=, >, <= or <, not 2"),
        ("SELECT S.id FROM S ASOF JOIN D ON S.t > D.t AND D.y > 1", "must compare its two sides"),
        ("SELECT S.id FROM S ASOF JOIN D ON S.k > D.k", "dates or timestamps, not VARCHAR"),
        ("SELECT S.id FROM S ASOF RIGHT JOIN D ON S.t > D.t", "ASOF RIGHT JOIN is not supported here"),
    ],
)
def test_invalid_asof_joins_are_refused(query, message) -> None:
    session = LocalSession()
    with pytest.raises(SqlError) as refused:
        session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    assert refused.value.message.endswith(message)


def test_explain_says_what_is_compared() -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {UNIQUE[0]}")
    assert "AsofJoin on k = D.k and __k1 >= D.t" in session.explain("V")
