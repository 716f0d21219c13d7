"""Band joins at every instant, compared with DuckDB, and which conditions become band joins."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from tests.support import duck_engine
from tests.support.strategies import examples

END = 8
SOURCES = """REGISTER SOURCE A (id INT, k TEXT, x INT, f DOUBLE, d TIMESTAMP) FROM a;
REGISTER SOURCE B (id INT, k TEXT, y BIGINT, g DOUBLE, e DATE) FROM b;
CREATE STREAM S OVER A KEY id; CREATE STREAM D OVER B KEY id;"""
CONDITIONS = [
    "S.x BETWEEN D.y - 1 AND D.y + 2",
    "S.k = D.k AND D.y - S.x < 2 AND S.x - D.y <= 1",
    "S.x < D.y",
    "S.k = D.k AND S.x + 1 > D.y AND S.x * 2 > D.id",
    "abs(S.f - D.g) <= 0.3",
    "S.f - D.g < 0.2 AND S.f > D.g - 0.1",
    "S.f >= D.g AND S.f <= D.g",
    "S.d BETWEEN D.e AND D.e + INTERVAL '1' DAY",
    "S.d > D.e - INTERVAL '12' HOUR AND S.k <> D.k",
    "S.x >= D.y AND S.x <= D.y + 1 AND S.f > D.g",
]
INTERVALS = [
    "S.x BETWEEN D.y AND D.id",
    "S.k = D.k AND S.x > D.y AND S.id <= D.id + 1",
    "D.y BETWEEN S.id AND S.x + 1",
    "S.f >= D.g - 0.1 AND S.x < D.y",
    "S.x <= D.y AND S.id >= D.id AND S.f > D.g",
]
QUERIES = [
    *(f"SELECT S.id, D.id AS other FROM S JOIN D ON {condition}" for condition in CONDITIONS),
    *(f"SELECT S.id, D.id AS other FROM S JOIN D ON {condition}" for condition in INTERVALS),
    *(f"SELECT S.id, D.id AS other, g FROM S LEFT JOIN D ON {condition}" for condition in INTERVALS[:2]),
    *(f"SELECT S.id, D.id AS other, g FROM S LEFT JOIN D ON {condition}" for condition in CONDITIONS[:6]),
    *(f"SELECT S.id, D.id AS other FROM S FULL JOIN D ON {condition}" for condition in CONDITIONS[:2]),
    *(f"SELECT S.id FROM S WHERE EXISTS (SELECT 1 FROM D WHERE {condition})" for condition in CONDITIONS[:3]),
    *(f"SELECT S.id FROM S WHERE NOT EXISTS (SELECT 1 FROM D WHERE {condition})" for condition in CONDITIONS[4:6]),
    f"SELECT S.k, count(*) AS n, sum(y) AS s FROM S, D WHERE {CONDITIONS[0]} GROUP BY S.k",
    "SELECT O.id, P.id AS other FROM S O, S P WHERE O.x BETWEEN P.x - 1 AND P.x",
]
SMALL, FLOAT = st.one_of(st.none(), st.integers(-2, 4)), st.sampled_from([None, 0.0, 0.1, 0.2, 0.3, -0.1, 1e300])
COMMON = {
    "id": st.integers(1, 4),
    "k": st.sampled_from([None, "a", "b"]),
    "ts": st.integers(0, END - 1),
    "op": st.sampled_from(["+", "+", "-"]),
}
DAY = st.integers(1, 4)
LEFT = st.lists(
    st.fixed_dictionaries({**COMMON, "x": SMALL, "f": FLOAT, "d": DAY.map(lambda day: f"2024-05-0{day}T07:00:00Z")}),
    max_size=8,
)
RIGHT = st.lists(
    st.fixed_dictionaries({**COMMON, "y": SMALL, "g": FLOAT, "e": DAY.map(lambda day: f"2024-05-0{day}")}), max_size=8
)


def rows_at(records: list[dict], at: int) -> list[dict]:
    last = {record["id"]: record for record in records if record["ts"] <= at}
    return [record for record in last.values() if record["op"] == "+"]


DUCK = duck_engine.connection()
DUCK.execute("CREATE TEMP TABLE S (id INT, k TEXT, x INT, f DOUBLE, d TIMESTAMP)")
DUCK.execute("CREATE TEMP TABLE D (id INT, k TEXT, y BIGINT, g DOUBLE, e DATE)")


def answer(query: str, left: list[dict], right: list[dict], at: int) -> Counter:
    for name, columns, records in (("S", "id k x f d", left), ("D", "id k y g e", right)):
        duck_engine.fill(DUCK, name, [[row[column] for column in columns.split()] for row in rows_at(records, at)])
    return Counter(DUCK.execute(query).fetchall())


def check(query: str, left: list[dict], right: list[dict], cut: tuple[int, int | None]) -> None:
    left, right = (sorted(records, key=lambda record: record["ts"]) for records in (left, right))
    session = LocalSession(*cut)
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS {query}")
    session.push("A", left)
    session.push("B", right)
    session.advance(END)
    for at in range(END):
        rows = Counter(tuple(row.values()) for row in session.relation("V", at=at))
        assert rows == answer(query, left, right, at), f"at {at}"


@settings(max_examples=examples(50))
@given(st.sampled_from(QUERIES), LEFT, RIGHT, st.sampled_from([(1, None), (1, 1), (3, 2)]))
def test_as_duckdb_at_every_instant(query, left, right, cut) -> None:
    check(query, left, right, cut)


def records(size: int) -> tuple[list[dict], list[dict]]:
    days = [f"2024-05-0{1 + at % 5}" for at in range(size)]
    common = [{"id": at, "k": "abc"[at % 3], "ts": at % END, "op": "+"} for at in range(size)]
    left = [
        {**record, "x": at * 7 % 20, "f": at * 3 % 11 / 10, "d": f"{days[at]}T07:00:00Z"}
        for at, record in enumerate(common)
    ]
    right = [{**record, "y": at * 5 % 20, "g": at * 7 % 13 / 10, "e": days[at]} for at, record in enumerate(common)]
    return left, right


@pytest.mark.parametrize("query", QUERIES)
def test_every_query(query) -> None:
    check(query, *records(16), (2, 7))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_searched_for(condition) -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT S.id, D.id AS other FROM S, D WHERE {condition}")
    assert " BandJoin" in session.explain("V")


@pytest.mark.parametrize("condition", INTERVALS)
def test_intervals_are_searched_by_both_ends(condition) -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT S.id, D.id AS other FROM S, D WHERE {condition}")
    assert " IntervalJoin" in session.explain("V")


@pytest.mark.parametrize(
    "condition", ["S.id = D.id AND S.x < D.y", "S.k < D.k", "S.x <> D.y", "S.x < D.y OR S.k = D.k", "S.x + S.id < 7"]
)
def test_other_conditions_do_not_become_band_joins(condition) -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT S.id, D.id AS other FROM S, D WHERE {condition}")
    assert "BandJoin" not in session.explain("V")


@pytest.mark.parametrize("points_first", [False, True])
def test_faults_do_not_depend_on_batches(points_first) -> None:
    """A range search also returns neighbours of the matching rows, which depend on the batch. They are dropped before
    the condition is evaluated, so that they cause no fault."""
    letters = []
    for cut in ((1, None), (1, 1), (1, 2)):
        session = LocalSession(*cut)
        session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT S.id FROM S, D WHERE "
                        f"S.x >= D.id AND S.x <= D.y - {2**63 - 1}")  # fmt: skip
        point = ("A", [{"id": 1, "x": -3, "ts": 1}])
        spans = ("B", [{"id": -10, "y": 2**63 - 1, "ts": 2}, {"id": -9, "y": -5, "ts": 3}])
        for source, pushed in (point, spans) if points_first else (spans, point):
            session.push(source, [{**record, "ts": record["ts"] % 4} for record in pushed])
        session.advance(END)
        letters.append((session.relation("V"), len(session.dead_letters("A")) + len(session.dead_letters("B"))))
    assert letters[0] == letters[1] == letters[2]


def test_a_sum_that_overflows_is_in_fault_as_without_a_band() -> None:
    session = LocalSession()
    session.execute(f"{SOURCES} CREATE STREAMED VIEW V AS SELECT S.id, y FROM S, D WHERE S.x <= D.y + 1")
    session.push("A", [{"id": 1, "x": 3, "ts": 1}])
    session.push("B", [{"id": at, "y": y, "ts": 2} for at, y in enumerate([2**63 - 1, 1, 2])])
    session.advance(END)
    assert session.relation("V") == [{"id": 1, "y": 2}]
    (letter,) = session.dead_letters("B")
    assert "overflow" in str(letter)
