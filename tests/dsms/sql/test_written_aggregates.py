"""User-defined aggregates in a local session: panes, several columns, several rows, FILTER and HAVING, with results
computed by hand."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.core.errors import UserError

DEFINITIONS = """
CREATE ALGEBRAIC WINDOW AGGREGATE max(next DOUBLE): DOUBLE {
  TABLE inwindow(value);
  INITIALIZE: { INSERT INTO RETURN VALUES (next); }
  ITERATE: { DELETE FROM inwindow WHERE value <= next; INSERT INTO RETURN VALUES (oldest()); }
  EXPIRE: { }
}
CREATE AGGREGATE spread(x DOUBLE): (low DOUBLE, high DOUBLE) {
  TABLE t(a DOUBLE, b DOUBLE);
  INITIALIZE: { INSERT INTO t VALUES (x, x); }
  ITERATE: { UPDATE t SET a = least(a, x), b = greatest(b, x); }
  TERMINATE: { INSERT INTO RETURN SELECT a, b FROM t; }
}
CREATE AGGREGATE top2(x DOUBLE): DOUBLE {
  TABLE t(x DOUBLE);
  INITIALIZE: ITERATE: { INSERT INTO t VALUES (x); }
  TERMINATE: { INSERT INTO RETURN SELECT x FROM t ORDER BY x DESC LIMIT 2; }
}
"""
VALUES = [5.0, 1.0, 7.0, 2.0, 9.0, 3.0, 3.0, 1.0, 4.0, 4.0, 8.0, 0.0]


@pytest.fixture(params=[(1, None), (2, 5)], ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    session = LocalSession(*request.param)
    session.execute("CREATE STREAM B (k VARCHAR, x DOUBLE, at BIGINT) ORDER BY at SOURCE 'b'")
    session.execute(DEFINITIONS)
    return session


def feed(session: LocalSession) -> None:
    """Rows at the instants 1, 2, …, of b and a alternately."""
    session.push("B_source", [{"k": "ba"[at % 2], "x": x, "at": at + 1} for at, x in enumerate(VALUES)])
    session.advance(50)


def test_an_algebraic_window_aggregate_takes_panes(session: LocalSession) -> None:
    session.execute("CREATE STREAM o AS SELECT max(x) OVER (ROWS 5 PRECEDING SLIDE 4) AS v FROM B")
    assert "tumble over rows 1 preceding slide 2" in session.explain("o")
    feed(session)
    assert [(row["v"], ts) for _, row, ts in session.changes("o")] == [(7.0, 4), (9.0, 8), (8.0, 12)]


def test_several_columns_are_a_struct(session: LocalSession) -> None:
    session.execute("CREATE VIEW v AS SELECT k, spread(x) AS s FROM R(B) GROUP BY k")
    feed(session)
    found = {row["k"]: row["s"] for row in session.relation("v")}
    assert found == {"a": {"low": 0.0, "high": 4.0}, "b": {"low": 3.0, "high": 9.0}}


def test_several_rows_are_rows_of_the_result(session: LocalSession) -> None:
    session.execute("CREATE VIEW v AS SELECT k, top2(x) AS x FROM R(B) GROUP BY k")
    session.execute("CREATE STREAM o AS SELECT top2(x) OVER (ROWS 2 PRECEDING) AS x FROM B")
    feed(session)
    found = sorted((row["k"], row["x"]) for row in session.relation("v"))
    assert found == [("a", 3.0), ("a", 4.0), ("b", 8.0), ("b", 9.0)]
    shown = sorted((ts, row["x"]) for _, row, ts in session.changes("o"))
    assert shown[:5] == [(1, 5.0), (2, 1.0), (2, 5.0), (3, 5.0), (3, 7.0)]


def test_filter_having_and_a_builtin_aggregate_together(session: LocalSession) -> None:
    session.execute(
        "CREATE VIEW v AS SELECT k, spread(x) FILTER (WHERE x > 2) AS s, count(*) AS n FROM R(B) GROUP BY k "
        "HAVING (spread(x)).high > 5"
    )
    feed(session)
    assert session.relation("v") == [{"k": "b", "s": {"low": 3.0, "high": 9.0}, "n": 6}]


def test_a_relation_has_no_last_rows(session: LocalSession) -> None:
    session.execute("CREATE STREAM Keyed OVER B_source KEY k")
    with pytest.raises(UserError, match="an aggregate over the last rows needs a stream"):
        session.execute("CREATE VIEW v AS SELECT max(x) OVER (ROWS 2 PRECEDING SLIDE 2) AS v FROM Keyed")


def test_window_order_over_a_stream_must_be_the_instant(session: LocalSession) -> None:
    over = "max(x) OVER (ORDER BY {} ROWS 1 PRECEDING)"
    session.execute(f"CREATE STREAM o AS SELECT {over.format('at')} AS v FROM B")
    feed(session)
    assert [row["v"] for _, row, _ in session.changes("o")][:4] == [5.0, 5.0, 7.0, 7.0]
    for other in ("x", "at DESC"):
        with pytest.raises(UserError, match="windows of a stream follow the order of its rows"):
            session.execute(f"CREATE STREAM p AS SELECT {over.format(other)} AS v FROM B")


@pytest.mark.parametrize("inverse", ["", "EXPIRE: { UPDATE t SET s = s - x; }"], ids=["run again", "inverse"])
def test_distinct_filter_and_rollup_on_changes(inverse: str) -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE T (k VARCHAR, g VARCHAR, x INT) FROM t; CREATE STREAM S OVER T KEY k")
    session.execute(
        "CREATE AGGREGATE total(x BIGINT): BIGINT { TABLE t(s BIGINT); INITIALIZE: { INSERT INTO t VALUES (x); } "
        f"ITERATE: {{ UPDATE t SET s = s + x; }} TERMINATE: {{ INSERT INTO RETURN SELECT s FROM t; }} {inverse} }}"
    )
    calls = "total(DISTINCT x) AS d, total(x) AS t, total(x) FILTER (WHERE x > 1) AS f"
    session.execute(f"CREATE VIEW v AS SELECT g, {calls} FROM R(S) GROUP BY ROLLUP (g)")
    for ts, (k, x) in enumerate([("1", 1), ("2", 1), ("3", 2), ("1", 5)], 1):
        session.push("T", [{"k": k, "g": "a", "x": x, "ts": ts}])
    session.push("T", [{"k": "2", "ts": 5, "op": "-"}, {"k": "9", "g": "b", "x": 7, "ts": 6}])
    session.advance(9)
    expected = {1: (1, 1, None), 2: (1, 2, None), 3: (3, 4, 2), 4: (8, 8, 7), 5: (7, 7, 7)}
    for at, values in expected.items():
        rows = session.relation("v", at=at)
        assert {(row["g"], row["d"], row["t"], row["f"]) for row in rows} == {("a", *values), (None, *values)}
    whole = {(row["g"], row["d"], row["t"], row["f"]) for row in session.relation("v")}
    assert whole == {("a", 7, 7, 7), ("b", 7, 7, 7), (None, 14, 14, 14)}


@pytest.mark.parametrize("text", ["", "{", "}", ";", "(", ")", "where", "} ; {"])
def test_a_body_may_have_any_text_in_quotes(text: str) -> None:
    session = LocalSession()
    session.execute(
        "CREATE STREAM S (x VARCHAR, at BIGINT) ORDER BY at SOURCE 's';"
        "CREATE AGGREGATE last(x VARCHAR): VARCHAR { TABLE t(s VARCHAR);"
        f" INITIALIZE: {{ INSERT INTO t VALUES ('{text}'); UPDATE t SET s = '{text}' || x; }}"
        f" ITERATE: {{ IF x <> '{text}' {{ UPDATE t SET s = '{text}' || x; }} }}"
        " TERMINATE: { INSERT INTO RETURN SELECT s FROM t; } };"
        "CREATE VIEW v AS SELECT last(x) AS l FROM R(S)"
    )
    session.push("S_source", [{"x": "a", "at": 1}, {"x": "b", "at": 2}])
    session.advance(3)
    assert session.relation("v") == [{"l": f"{text}b"}]
