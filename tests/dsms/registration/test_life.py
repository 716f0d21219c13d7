"""The life of a query: a pause changes no record, a replaced query continues as the new one, and START cuts the
logs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dsms.model.objects import Query
from dsms.testing import LocalSession
from dsms.testing.changes import relation_at
from operators.core.errors import UserError
from tests.support.query_histories import END, PUSHES, Push
from tests.support.strategies import examples

SOURCES = """
REGISTER SOURCE T (k VARCHAR NOT NULL, v BIGINT) FROM t SLACK 2; CREATE STREAM S OVER T KEY k;
REGISTER SOURCE E (k VARCHAR NOT NULL, n BIGINT, i INT) FROM e SLACK 1; CREATE STREAM A OVER E KEY NULL;
CREATE TABLE Names (k VARCHAR PRIMARY KEY, name VARCHAR);
"""
#: Queries that can replace each other.
ALIKE = {
    "keyed": [
        "SELECT k, v FROM S WHERE v > 1",
        "SELECT k, v FROM S WHERE v < 2",
        "SELECT k, v FROM S WHERE v > 0",
        "SELECT k, v + 1 AS v FROM S",
        "SELECT k, v FROM S",
        "SELECT k, v FROM S WHERE k IN (SELECT k FROM A)",
        "SELECT k, COUNT(*) AS v FROM A GROUP BY k",
        "SELECT k, COUNT(*) AS v FROM A [RANGE 3] GROUP BY k",
        "SELECT k, SUM(w) AS v FROM W GROUP BY k",
    ],
    "bags": [
        "SELECT n FROM A WHERE n > 1",
        "SELECT n FROM A",
        "SELECT v AS n FROM S",
        "SELECT COUNT(*) AS n FROM S",
        "SELECT n FROM A [RANGE 3]",
        "SELECT SUM(w) AS n FROM W",
    ],
}
#: Texts of the view W, whose readers are replaced with it.
VIEWS = [
    "SELECT k, v AS w FROM S",
    "SELECT k, v + v AS w FROM S WHERE v > 0",
    "SELECT k, MAX(n) AS w FROM A GROUP BY k",
]
#: Queries that no statement changes.
OTHERS = {
    "Same": "SELECT k, v FROM S WHERE v > 1",
    "Count": "SELECT k, COUNT(*) AS n FROM A GROUP BY k",
    "Left": "SELECT S.k, S.v, C.n FROM S LEFT JOIN (SELECT k, COUNT(*) AS n FROM A GROUP BY k) C ON S.k = C.k",
}
ADVANCES = st.integers(0, 12)
NAMES = st.sampled_from(sorted(ALIKE))
LIVES = st.one_of(
    PUSHES,
    PUSHES,
    ADVANCES,
    st.tuples(st.sampled_from(["PAUSE", "RESUME"]), st.sampled_from([*ALIKE, *OTHERS])),
    st.tuples(NAMES, st.integers(0, 8)),
    st.tuples(st.just("W"), st.integers(0, 2)),
)


def feed(session: LocalSession, step: Push | int) -> None:
    if isinstance(step, Push):
        session.push(step.source, [step.row])
    else:
        session.advance(step)


def begin(session: LocalSession, names=()) -> LocalSession:
    session.execute(SOURCES)
    session.execute(f"CREATE STREAMED VIEW W AS {VIEWS[0]}")
    for name in names:
        session.execute(f"CREATE QUERY {name} AS {[*ALIKE.get(name, [OTHERS.get(name)])][0]}")
    return session


def is_fed(step) -> bool:
    return isinstance(step, Push | int)


def fresh(steps, queries: dict[str, str]) -> LocalSession:
    """A session in which each query exists from the first record on, for comparison."""
    session = LocalSession(sharing=False)
    session.execute(SOURCES)
    for name, select in queries.items():
        session.execute(f"CREATE STREAMED VIEW {name} AS {select}")
    for step in [*filter(is_fed, steps), END]:
        feed(session, step)
    return session


@settings(max_examples=examples(20))
@given(
    st.lists(LIVES.filter(lambda step: is_fed(step) or step[0] in ("PAUSE", "RESUME")), max_size=24),
    st.integers(1, 2),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
)
@example([Push("T", "a", 2, 1), ("PAUSE", "keyed"), Push("T", "a", 1, 2), 4, ("RESUME", "keyed")], 1, None, True)
def test_a_query_that_was_paused_has_the_log_of_one_that_was_not(steps, partitions, batch, sharing) -> None:
    names = [*ALIKE, *OTHERS]
    session, paused = begin(LocalSession(partitions, batch, sharing=sharing), names), {}
    for step in steps:
        if is_fed(step):
            feed(session, step)
        else:
            session.execute(f"{step[0]} QUERY {step[1]}")
            paused = {**paused, step[1]: session.changes(step[1])} if step[0] == "PAUSE" else without(paused, step[1])
        assert all(session.changes(name) == before for name, before in paused.items()), "a paused query is silent"
    for name in names:
        session.execute(f"RESUME {name}")
    session.advance(END)
    alone = fresh(steps, {name: [*ALIKE.get(name, [OTHERS.get(name)])][0] for name in names})
    for name in names:
        assert session.changes(name) == alone.changes(name), name


def without(logs: dict, name: str) -> dict:
    return {other: log for other, log in logs.items() if other != name}


@dataclass(frozen=True)
class Replaced:
    """The log of a query before it was replaced, the instant of the replacement, and the new query."""

    before: list
    since: int | None
    select: str


@settings(max_examples=examples(25))
@given(st.lists(LIVES, max_size=24), st.integers(1, 2), st.sampled_from([None, 1, 3]), st.booleans())
@example([Push("T", "a", 2, 1), 3, ("keyed", 1), Push("T", "a", 0, 4), ("W", 1), 7, ("keyed", 8), ("W", 2)], 1, 1, True)
@example([Push("T", "a", 2, 1), 3, ("PAUSE", "keyed"), ("keyed", 8), 5, ("W", 1), Push("T", "b", 2, 7)], 1, None, True)
def test_a_replaced_query_keeps_its_log_and_becomes_the_new_one(steps, partitions, batch, sharing) -> None:
    session = begin(LocalSession(partitions, batch, sharing=sharing), [*ALIKE, *OTHERS])
    now: dict[str, Replaced] = {}
    view = VIEWS[0]
    for step in steps:
        if is_fed(step):
            feed(session, step)
        elif step[0] in ("PAUSE", "RESUME"):
            session.execute(f"{step[0]} {step[1]}")
        elif step[0] == "W":
            view = VIEWS[step[1]]
            note(session, f"CREATE OR REPLACE VIEW W AS {view}", {**dict.fromkeys(["W", *ALIKE])}, now)
        else:
            select = ALIKE[step[0]][step[1] % len(ALIKE[step[0]])]
            note(session, f"CREATE OR REPLACE QUERY {step[0]} AS {select}", {step[0]: select}, now)
    for name in [*ALIKE, *OTHERS]:
        session.execute(f"RESUME {name}")
    session.advance(END)
    selects = {"W": view, **{name: variants[0] for name, variants in ALIKE.items()}, **OTHERS}
    selects |= {name: query.select for name, query in now.items() if query.select}
    alone = fresh(steps, {"W": selects.pop("W"), **selects})
    assert {name: session.changes(name) for name in OTHERS} == {name: alone.changes(name) for name in OTHERS}
    for name in (name for name in ["W", *ALIKE] if name not in now):
        assert session.changes(name) == alone.changes(name), name
    for name, replaced in now.items():
        assert_replaced(session, alone, name, replaced)


def note(session: LocalSession, sql: str, selects: dict[str, str | None], now: dict[str, Replaced]) -> None:
    """Records what is known about the queries that a statement replaces."""
    logs = {name: session.changes(name) for name in selects}
    ids = {name: session.catalog.find(name).id for name in selects}
    session.execute(sql)
    for name, select in selects.items():
        query = session.catalog.find(name)
        assert isinstance(query, Query)
        if query.id != ids[name] and query.since is not None:
            known = select or (now[name].select if name in now else "")
            now[name] = Replaced(logs[name], query.since, known)
        elif query.id != ids[name] and select:
            now[name] = Replaced([], None, select)


def assert_replaced(session: LocalSession, alone: LocalSession, name: str, replaced: Replaced) -> None:
    log = session.changes(name)
    if replaced.since is None:
        assert log == alone.changes(name), name
        return
    assert [change for change in log if change[2] < replaced.since] == replaced.before, name
    keys = session.key(name)
    for at in range(max(replaced.since, 0), END):
        assert bag(relation_at(log, keys, at)) == bag(relation_at(alone.changes(name), keys, at)), (name, at)


def bag(rows: list[dict]) -> Counter:
    return Counter(map(repr, rows))


def test_a_replacement_publishes_only_the_difference() -> None:
    session = begin(LocalSession())
    session.execute(
        "CREATE STREAMED VIEW V AS SELECT k, v FROM S WHERE v > 1; CREATE QUERY Q AS SELECT k, v * 10 AS t FROM V"
    )
    for k, v in (("a", 2), ("b", 1), ("c", 3)):
        session.push("T", [{"k": k, "v": v, "ts": 1}])
    session.advance(4)
    session.execute("CREATE OR REPLACE VIEW V AS SELECT k, v FROM S WHERE v < 3")
    session.advance(6)
    assert session.changes("V")[2:] == [("+", {"k": "b", "v": 1}, 4), ("-", {"k": "c"}, 4)]
    assert session.changes("Q")[2:] == [("+", {"k": "b", "t": 10}, 4), ("-", {"k": "c"}, 4)]


def test_a_replaced_stream_never_retracts() -> None:
    session = begin(LocalSession())
    session.execute("CREATE QUERY Q AS SELECT Istream(n) FROM A WHERE n > 1")
    session.push("E", [{"k": "a", "n": n, "ts": n} for n in (1, 2, 3)])
    session.advance(5)
    session.execute("CREATE OR REPLACE QUERY Q AS SELECT Istream(n) FROM A WHERE n < 3")
    session.push("E", [{"k": "a", "n": n, "ts": 6} for n in (1, 7)])
    session.advance(9)
    assert session.changes("Q") == [("+", {"n": 2}, 2), ("+", {"n": 3}, 3), ("+", {"n": 1}, 6)]


def test_the_former_version_is_retired_once_the_new_one_has_published() -> None:
    session = begin(LocalSession())
    session.execute("CREATE QUERY Q AS SELECT k, v FROM S WHERE v > 1")
    session.advance(3)
    session.execute("CREATE OR REPLACE QUERY Q AS SELECT k, v FROM S WHERE v > 2")
    assert session.catalog.find("Q").former is not None
    session.advance(4)
    session.execute("SHOW QUERIES")
    assert session.catalog.find("Q").former is None
    session.push("T", [{"k": "a", "v": v, "ts": v} for v in (4, 5, 2)])
    session.advance(9)
    assert session.changes("Q") == [("+", {"k": "a", "v": 4}, 4), ("u", {"k": "a", "v": 5}, 5)]


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("SELECT k, v AS w FROM S", "the columns would change from (k string, v int64) to (k string, w int64)"),
        (
            "SELECT k, CAST(v AS INT) AS v FROM S",
            "the columns would change from (k string, v int64) to (k string, v int32)",
        ),
        ("SELECT k, n AS v FROM A", "the key would change from (k) to ()"),
    ],
)
def test_replacements_that_consumers_could_not_read_are_refused(select: str, reason: str) -> None:
    session = begin(LocalSession())
    session.execute("CREATE QUERY Q AS SELECT k, v FROM S")
    before = session.catalog
    with pytest.raises(UserError) as refused:
        session.execute(f"CREATE OR REPLACE QUERY Q AS {select}")
    expected = f'query "Q" cannot be replaced: {reason}; DROP QUERY Q and create it again'
    assert str(refused.value) == expected
    assert session.catalog == before


@settings(max_examples=examples(20))
@given(
    st.lists(PUSHES | ADVANCES, max_size=20),
    st.integers(0, 24),
    st.integers(0, 9),
    st.sampled_from([*ALIKE["keyed"][:-1], *ALIKE["bags"][:-1]]),
    st.sampled_from([None, 1, 3]),
)
def test_start_equals_logs_without_the_earlier_records(steps, created, start, select, batch) -> None:
    """The expected changes are those over logs without the earlier records, which cannot make later ones late."""
    session = begin(LocalSession(2, batch), ["Same"])
    for at, step in enumerate([*steps, END]):
        if at == min(created, len(steps)):
            session.execute(f"CREATE QUERY Q WITH (start = {start}) AS {select}")
        feed(session, step)
    later = [step for step in steps if not isinstance(step, Push) or step.ts >= start]
    assert session.changes("Q") == fresh(later, {"Q": select}).changes("Q")


def test_start_latest_is_stored_as_an_instant() -> None:
    session = begin(LocalSession())
    session.push("T", [{"k": "a", "v": 1, "ts": 5}])
    session.execute("CREATE QUERY Q WITH (start = 'latest') AS SELECT k, v FROM S")
    assert session.catalog.find("Q").start == 6
    session.push("T", [{"k": "b", "v": 1, "ts": 7}, {"k": "a", "v": 2, "ts": 8}])
    session.advance(9)
    assert session.changes("Q") == [("+", {"k": "b", "v": 1}, 7), ("+", {"k": "a", "v": 2}, 8)]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", None),
        ("'earliest'", None),
        ("17", 17),
        ("-4", -4),
        ("'2024-05-01 12:00:00'", 1714564800000),
        ("TIMESTAMP '2024-05-01T12:00:00.0005Z'", 1714564800001),
        ("'2024-05-01'", 1714521600000),
    ],
)
def test_spellings_of_start(text: str, start: int | None) -> None:
    session = begin(LocalSession())
    session.execute(f"CREATE QUERY Q WITH (start = {text}) AS SELECT k, v FROM S")
    assert session.catalog.find("Q").start == start


def test_tables_are_read_as_a_whole_and_a_view_passes_its_start_on() -> None:
    session = begin(LocalSession())
    session.execute("INSERT INTO Names VALUES ('a', 'Ann'), ('b', 'Bob')")
    session.push("T", [{"k": "a", "v": 1, "ts": 1}, {"k": "b", "v": 2, "ts": 4}])
    session.execute("""CREATE STREAMED VIEW Late WITH (start = 3) AS
        SELECT S.k, v, name FROM S JOIN Names ON S.k = Names.k;
        CREATE QUERY Over AS SELECT k, v FROM Late; CREATE QUERY Later WITH (start = 5) AS SELECT k, v FROM Late""")
    session.push("T", [{"k": "a", "v": 9, "ts": 6}])
    session.advance(9)
    assert session.relation("Over") == [{"k": "b", "v": 2}, {"k": "a", "v": 9}]
    assert session.relation("Later") == [{"k": "a", "v": 9}]


def test_only_queries_with_equal_starts_share() -> None:
    session = begin(LocalSession())
    for name, start in (("X", 3), ("Y", 3), ("Z", 4)):
        session.execute(f"CREATE QUERY {name} WITH (start = {start}) AS SELECT k, COUNT(*) AS n FROM A GROUP BY k")
    assert "shared with Y" in session.explain("X")
    assert "Z" not in session.explain("X").split("shared with", 1)[1]


def test_a_paused_view_does_not_hold_back_its_readers() -> None:
    session = begin(LocalSession(), ["Same"])
    session.execute("CREATE QUERY Over AS SELECT k, w FROM W; DEACTIVATE VIEW W")
    session.push("T", [{"k": "a", "v": 2, "ts": 1}])
    session.advance(3)
    assert session.changes("W") == []
    assert session.changes("Over") == [("+", {"k": "a", "w": 2}, 1)]
    states = {row["name"]: row["state"] for row in session.execute("SHOW VIEWS")}
    assert states == {"W": "paused"}
    session.execute("ACTIVATE W")
    assert session.changes("W") == [("+", {"k": "a", "w": 2}, 1)]


def test_weights_are_stored_and_shown() -> None:
    session = begin(LocalSession())
    session.execute("CREATE QUERY Q WITH (weight = 3) AS SELECT k, v FROM S; CREATE QUERY P AS SELECT k FROM S")
    session.execute("ALTER QUERY P SET (weight = 2.5)")
    assert {row["name"]: row["weight"] for row in session.execute("SHOW QUERIES")} == {"Q": 3.0, "P": 2.5}
    assert session.run("DESCRIBE P")[0].message == 'query "P": running, weight 2.5, fragment 0'
    with pytest.raises(UserError, match='WEIGHT needs a positive number, not "0"'):
        session.execute("ALTER QUERY P SET (weight = 0)")


def test_state_limits_are_stored_and_shown() -> None:
    session = begin(LocalSession())
    session.execute("CREATE QUERY Q WITH (state_memory = '1.5 MB') AS SELECT k, COUNT(*) AS n FROM S GROUP BY k")
    assert session.run("DESCRIBE Q")[0].message.endswith("at most 1500000 bytes of unshared state in Redis, fragment 0")
    session.execute("CREATE OR REPLACE QUERY Q AS SELECT k, SUM(v) AS n FROM S GROUP BY k")
    assert session.catalog.find("Q").state_memory == 1_500_000
    session.execute("ALTER QUERY Q SET (state_memory = 'none')")
    assert "Redis" not in session.run("DESCRIBE Q")[0].message
    with pytest.raises(UserError, match='line 1, column 20: state_memory needs a size, not "much"'):
        session.execute("ALTER QUERY Q SET (state_memory = 'much')")


def test_a_source_is_kept_for_the_former_version_of_a_query() -> None:
    session = begin(LocalSession())
    session.execute("CREATE QUERY Q AS SELECT k, v FROM S")
    session.advance(3)
    session.execute("CREATE OR REPLACE QUERY Q AS SELECT k, n AS v FROM (SELECT k, MAX(n) AS n FROM A GROUP BY k)")
    with pytest.raises(UserError, match='source "T" is used by S, W, Q'):
        session.execute("DROP SOURCE T")
