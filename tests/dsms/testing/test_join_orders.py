"""Joins whose order changes while they run: they publish the records of a plan without changes, and the relation equals
DuckDB's at every instant."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.support.strategies import examples

NAMES, END = "abcd", 60
SOURCES = "".join(
    f"REGISTER SOURCE T{name} ({name} INT, v{name} INT) FROM t{name} SLACK 3;"
    f"CREATE STREAM S{name} OVER T{name} KEY NULL;"
    for name in NAMES
)
#: The select lists, and the conditions between the four inputs.
SELECTS = (
    "a, va, vb, vd",
    "a, COUNT(*) AS n, MAX(vd) AS m, SUM(vb) AS s",
    "DISTINCT vb, c",
)
CONDITIONS = ("a = b AND b = c AND c = d", "a = b AND a = c AND a = d AND va < vd", "a = b AND va = c AND vb = d")
GROUPS = {SELECTS[1]: " GROUP BY a"}
#: How long rows stay in each of the inputs; None means without an end.
RANGES = st.tuples(*[st.sampled_from([0, 4, 9, 15])] * 4)
RECORDS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 3), st.integers(0, 3), st.integers(0, END - 1), st.integers(0, 3)),
    max_size=60,
)
ORDERS = st.permutations([1, 2, 3, 4])


def text(select: str, condition: str, ranges) -> str:
    windows = ("" if length is None else f" [RANGE {length}]" for length in ranges)
    inputs = ", ".join(f"S{name}{window}" for name, window in zip(NAMES, windows, strict=True))
    return f"CREATE QUERY Q AS SELECT STREAMED {select} FROM {inputs} WHERE {condition}{GROUPS.get(select, '')}"


def play(sql: str, records, changes, partitions: int = 1, batch: int | None = None) -> LocalSession:
    """The session after the records. The join order changes after the given numbers of records."""
    session = LocalSession(partitions, batch)
    session.execute(SOURCES + sql)
    for number, (name, key, value, at, _) in enumerate(arriving(records)):
        session.push(f"T{name}", [{name: key, f"v{name}": value, "ts": at}])
        for order in (order for after, order in changes if after == number):
            session.execute(f"ALTER QUERY Q SET (join_order = '{', '.join(map(str, order))}')")
    session.advance(2 * END)
    return session


def arriving(records):
    """The records ordered by instant, with a disorder within SLACK."""
    return sorted(records, key=lambda record: record[3] + record[4] / 2)


def relation(session: LocalSession, at: int) -> list[tuple]:
    return sorted(tuple(row.values()) for row in session.relation("Q", at))


def by_duckdb(select: str, condition: str, ranges, records, at: int) -> list[tuple]:
    """The query over the contents of the windows at an instant, by DuckDB."""
    database = duckdb.connect()
    for name, length in zip(NAMES, ranges, strict=True):
        database.execute(f"CREATE TABLE S{name} ({name} INT, v{name} INT)")
        rows = [
            (key, value)
            for stream, key, value, begin, _ in records
            if stream == name and begin <= at and (length is None or begin + length >= at)
        ]
        if rows:
            database.executemany(f"INSERT INTO S{name} VALUES (?, ?)", rows)
    tables = ", ".join(f"S{name}" for name in NAMES)
    return sorted(database.sql(f"SELECT {select} FROM {tables} WHERE {condition}{GROUPS.get(select, '')}").fetchall())


@settings(max_examples=examples(25))
@given(
    st.sampled_from(SELECTS),
    st.sampled_from(CONDITIONS),
    RANGES,
    RECORDS,
    st.lists(st.tuples(st.integers(0, 59), ORDERS), min_size=1, max_size=3),
    st.tuples(st.integers(1, 2), st.integers(1, 9) | st.none()),
)
def test_a_change_of_the_order_changes_no_record(select, condition, ranges, records, changes, cut) -> None:
    sql = text(select, condition, ranges)
    changed = play(sql, records, changes, *cut)
    assert changed.changes("Q") == play(sql, records, []).changes("Q")
    for at in range(0, END + 20, 7):
        assert relation(changed, at) == by_duckdb(select, condition, ranges, records, at)


@settings(max_examples=examples(8))
@given(RECORDS, st.integers(0, 40), ORDERS, st.sampled_from([(None, 9, 9, 9), (4, None, None, 4)]))
def test_next_plan_starts_at_the_beginning_if_rows_never_leave(records, after, order, ranges) -> None:
    sql = text(SELECTS[1], CONDITIONS[0], ranges)
    changed = play(sql, records, [(after, order)])
    assert changed.changes("Q") == play(sql, records, []).changes("Q")
    for at in range(0, END + 20, 9):
        assert relation(changed, at) == by_duckdb(SELECTS[1], CONDITIONS[0], ranges, records, at)


#: Q and P share their joins; a union with another source is above them.
UNION = """(SELECT a, vb FROM Sa [RANGE 50] JOIN Sb [RANGE 50] ON a = b JOIN Sc [RANGE 50] ON va = vc
    UNION ALL SELECT d AS a, vd AS vb FROM Sd [RANGE 50]) u"""
TWO = f"""CREATE QUERY Q AS SELECT STREAMED a, SUM(vb) AS n FROM {UNION} GROUP BY a;
    CREATE QUERY P AS SELECT STREAMED a, COUNT(vb) AS n FROM {UNION} GROUP BY a;"""


@settings(max_examples=examples(15))
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.integers(0, 2), st.integers(0, 2)), max_size=50),
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from("QP"), st.permutations([1, 2, 3])), max_size=4),
    st.integers(0, 90),
)
def test_queries_that_share_their_joins_change_at_different_times(records, changes, ahead) -> None:
    """The source of the other side of the union is ahead of the sources of the joins."""

    def published(changes) -> list[list]:
        session = LocalSession()
        session.execute(SOURCES + TWO)
        for number, (name, key, value) in enumerate(records):
            at = 4 * number + (ahead if name == "d" else 0)
            session.push(f"T{name}", [{name: key, f"v{name}": value, "ts": at}])
            for _, query, order in (change for change in changes if change[0] == number):
                session.execute(f"ALTER QUERY {query} SET (join_order = '{', '.join(map(str, order))}')")
        session.advance(500)
        return [session.changes(query) for query in "QP"]

    assert published(changes) == published([])


def test_lanes_whose_state_is_not_complete_are_not_merged() -> None:
    """Both next plans are exact from the same instant on, although they begin at different instants."""

    def published(*, changing: bool) -> list[list]:
        session = LocalSession()
        session.execute(SOURCES + TWO)

        def push(name: str, at: int) -> None:
            session.push(f"T{name}", [{name: 1, f"v{name}": 1, "ts": at}])

        for name in NAMES:
            push(name, 1)
        push("d", 100)
        for query, instants in (("Q", (62, 66, 70)), ("P", range(72, 260, 12))):
            if changing:
                session.execute(f"ALTER QUERY {query} SET (join_order = '1, 3, 2')")
            for at in instants:
                for name in NAMES if at > 100 else "abc":
                    push(name, at)
        session.advance(400)
        assert all(session.catalog.find(query).join_orders == ((0, 2, 1),) for query in "QP" if changing)
        return [session.changes(query) for query in "QP"]

    assert published(changing=True) == published(changing=False)


def test_a_plan_waits_while_one_source_is_far_ahead() -> None:
    session = LocalSession()
    session.execute(SOURCES + text(SELECTS[0], CONDITIONS[0], (9, 4, 9, 9)))
    for name in NAMES:
        session.push(f"T{name}", [{name: 1, f"v{name}": 1, "ts": 1}])
    session.push("Ta", [{"a": 1, "va": 1, "ts": 10**9}])
    session.execute("ALTER QUERY Q SET (join_order = '4, 3, 2, 1')")
    assert not any("+" in query for lane in session.runtime.revision.manifest.lanes.values() for query in lane.queries)
    session.execute("ALTER QUERY Q SET (join_order = FIXED)")
    assert session.catalog.find("Q").next_join_orders is None


def steady(count: int):
    return [(name, at % 3, at % 2, at, 0) for at in range(count) for name in NAMES]


def test_order_change_takes_one_window_and_leaves_no_state() -> None:
    session = LocalSession()
    session.execute(SOURCES + text(SELECTS[0], CONDITIONS[0], (9, 4, 9, 9)))
    held = []
    for name, key, value, at, _ in steady(40):
        if (name, at) == ("a", 20):
            message = session.run("ALTER QUERY Q SET (join_order = '4, 3, 2, 1')")[0].message
            assert message.endswith("changing its join order to 4, 3, 2, 1")
        session.push(f"T{name}", [{name: key, f"v{name}": value, "ts": at}])
        held.append((at, len(session.runtime.revision.lanes)))
    both = {at for at, lanes in held if lanes == max(count for _, count in held)}
    assert (min(both), max(both)) == (20, 33)  # 19 + the longest window + its own instant + the slack
    query = session.catalog.find("Q")
    assert (query.join_orders, query.next_join_orders) == (((3, 2, 1, 0),), None)
    fresh = LocalSession()
    fresh.execute(SOURCES + text(SELECTS[0], CONDITIONS[0], (9, 4, 9, 9)))
    fresh.execute("ALTER QUERY Q SET (join_order = '4, 3, 2, 1')")
    for name, key, value, at, _ in steady(40):
        fresh.push(f"T{name}", [{name: key, f"v{name}": value, "ts": at}])

    def plan(of: LocalSession):
        return {lane: vertices.flow.keys for lane, vertices in of.runtime.revision.lanes.items()}

    assert plan(session) == plan(fresh)
    assert session.changes("Q") == fresh.changes("Q")


def test_explain_shows_the_order_and_default_takes_it_back() -> None:
    session = LocalSession()
    session.execute(SOURCES + text(SELECTS[0], CONDITIONS[2], (9, 4, 9, 9)))
    usual = session.explain("Q")
    session.execute("ALTER QUERY Q SET (join_order = '1, 4, 3, 2')")
    session.push("Ta", [{"a": 1, "va": 1, "ts": 1}])
    session.advance(30)
    assert session.explain("Q") != usual
    assert "in a chosen order:" in session.explain("Q")
    session.execute("ALTER QUERY Q SET (join_order = DEFAULT)")
    session.advance(60)
    assert session.explain("Q").partition("expected")[0] == usual.partition("expected")[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("'1, 2'", 'query "Q" joins 4 inputs; JOIN_ORDER must name each input once'),
        ("'1, 2, 3, 4; 1, 2, 3'", 'query "Q" joins 4 inputs; JOIN_ORDER must name each input once'),
        ("'1, 2, 3, 3'", 'query "Q" joins 4 inputs; JOIN_ORDER must name each input once'),
        ("fast", '"fast" is not a valid JOIN_ORDER'),
        ("0", '"0" is not a valid JOIN_ORDER'),
    ],
)
def test_invalid_join_orders_are_refused(value, message) -> None:
    session = LocalSession()
    session.execute(SOURCES + text(SELECTS[0], CONDITIONS[0], (9, 4, 9, 9)))
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        session.execute(f"ALTER QUERY Q SET (join_order = {value})")


def test_unchangeable_joins_are_refused_with_the_reason() -> None:
    session = LocalSession()
    session.execute(SOURCES + "CREATE QUERY Two AS SELECT STREAMED a, vb FROM Sa [RANGE 5], Sb [RANGE 5] WHERE a = b")
    with pytest.raises(UserError, match='query "Two" has no join of three or more inputs whose order can change'):
        session.execute("ALTER QUERY Two SET (join_order = '2, 1')")
    sql = text(SELECTS[0], CONDITIONS[0], (9, 4, 9, 9))
    session.execute(sql)
    session.push("Ta", [{"a": 1, "va": 1, "ts": 1}])
    for name in NAMES:
        session.push(f"T{name}", [{name: 1, f"v{name}": 1, "ts": 9}])
    session.execute(sql.replace("CREATE", "CREATE OR REPLACE").replace("va, vb", "va, vb + 1 AS vb"))
    with pytest.raises(UserError, match='the join order of query "Q" cannot change: it replaced another query'):
        session.execute("ALTER QUERY Q SET (join_order = '4, 3, 2, 1')")
