"""The interface of LocalSession."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from dsms.testing import LocalSession
from operators.core.errors import InternalError, UserError

SQL = """REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM S OVER T KEY k;
CREATE STREAMED VIEW V AS SELECT k, 12 / v AS q FROM S;"""


@pytest.fixture
def session() -> LocalSession:
    session = LocalSession(2)
    session.execute(SQL)
    return session


def push(session: LocalSession, *records) -> None:
    session.push("T", [{"k": k, "v": v, "ts": ts} for k, v, ts in records])


def test_a_one_time_select_sees_the_last_final_instant(session) -> None:
    push(session, (1, 2, 1), (2, 3, 2), (3, 4, 3))
    assert session.execute("SELECT COUNT(*) AS n, SUM(q) AS s FROM R(V)") == [{"n": 2, "s": 10}]
    session.advance(9)
    assert session.execute("SELECT k FROM V WHERE q < 5 ORDER BY k DESC") == [{"k": 3}, {"k": 2}]
    joined = session.execute("SELECT a.k FROM S a JOIN V b ON a.k = b.k WHERE a.v = 2")
    assert joined == [{"k": 1}]


def test_only_final_instants_are_answered(session) -> None:
    push(session, (1, 2, 5))
    assert session.relation("S", at=4) == []
    with pytest.raises(UserError, match=r"instant 5 is not final yet; the frontier is 5; call advance\(6\)"):
        session.relation("S", at=5)
    session.advance(6)
    assert session.relation("S", at=5) == [{"k": 1, "v": 2}]


def test_a_fault_of_a_query_is_its_dead_letter_and_no_row(session) -> None:
    push(session, (1, 2, 1), (1, 0, 2), (1, 3, 3))
    session.advance(9)
    assert session.changes("V") == [("+", {"k": 1, "q": 6}, 1), ("-", {"k": 1}, 2), ("+", {"k": 1, "q": 4}, 3)]
    (letter,) = session.dead_letters("T")
    assert (letter["offset"], letter["query"], letter["reason"]) == (1, "V", 'division by zero in "12 / v"')
    assert letter["record"] == {"k": 1, "v": 0, "ts": 2}


def test_a_row_with_bytes_can_be_in_fault() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE T (k INT, v INT, b VARBINARY, bs VARBINARY[]) FROM t; CREATE STREAM S OVER T KEY k;"
        "CREATE STREAMED VIEW V AS SELECT k, 12 / v AS q, CAST(b AS VARCHAR) AS text, bs FROM S"
    )
    session.push("T", [{"k": 1, "v": 0, "b": b"x", "bs": [b"y"], "ts": 1}, {"k": 2, "v": 1, "b": b"\xff", "ts": 2}])
    session.push("T", [{"k": 3, "v": 1, "b": "é".encode(), "bs": [], "ts": 3}])
    session.advance(9)
    assert session.relation("V") == [{"k": 3, "q": 12, "text": "é", "bs": []}]
    assert [letter["reason"] for letter in session.dead_letters("T")] == [
        'division by zero in "12 / v"',
        'cannot cast a value to VARCHAR in "CAST(b AS VARCHAR)"',
    ]


def test_row_without_read_columns_can_be_in_fault() -> None:
    session = LocalSession()
    session.execute("REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY NULL")
    session.execute("CREATE STREAMED VIEW V AS SELECT COUNT(*) AS n FROM S WHERE 1 / 0 = 1")
    session.push("T", [{"k": 1, "ts": 1}])
    session.advance(9)
    assert session.relation("V") == [{"n": 0}]


def test_sums_of_windows_beyond_all_decimals_are_faults() -> None:
    session = LocalSession()
    session.execute(
        "CREATE TABLE t (k INT PRIMARY KEY, d DECIMAL(38, 2)); CREATE STREAMED VIEW V AS "
        "SELECT k, SUM(d) OVER (ORDER BY k ROWS 1 PRECEDING) AS s FROM t; CREATE STREAMED VIEW W AS "
        "SELECT k, AVG(d) OVER (ORDER BY k ROWS 3 PRECEDING) AS a, ROUND(d) AS r FROM t"
    )
    most = "9" * 36 + ".99"
    session.execute(f"INSERT INTO t VALUES (1, {most}), (2, {most}), (3, -{most}), (4, 1.5)")
    sums = {row["k"]: str(row["s"]) for row in session.relation("V")}
    assert sums == {1: most, 3: "0.00", 4: "-" + "9" * 35 + "8.49"}
    assert [row["a"] for row in session.relation("W")] == pytest.approx([1e36, 1e36, 1e36 / 3, 0.25e36])
    assert [row["r"] for row in session.relation("W")] == [Decimal(10**36), Decimal(10**36), Decimal(-(10**36)), 2]


def test_a_query_that_comes_after_the_records_has_their_dead_letters(session) -> None:
    push(session, (1, 0, 1), (1, 1, 3))
    session.execute("CREATE QUERY late AS SELECT STREAMED k, 7 % v AS r FROM S")
    reasons = {letter["query"]: letter["reason"] for letter in session.dead_letters("T")}
    assert reasons == {"V": 'division by zero in "12 / v"', "late": 'division by zero in "7 % v"'}


def test_names_that_are_no_stream_or_no_source(session) -> None:
    with pytest.raises(UserError, match='"T" is a source; ask for a stream, view or query over it'):
        session.changes("T")
    with pytest.raises(UserError, match='"S" is not a source; have: T'):
        session.push("S", [])
    with pytest.raises(UserError, match="must be positive"):
        LocalSession(0)


def test_a_dropped_view_is_gone_and_a_new_one_reads_the_whole_log(session) -> None:
    push(session, (1, 2, 1))
    session.advance(5)
    session.execute("DROP VIEW V")
    with pytest.raises(UserError, match='"V" not found'):
        session.changes("V")
    session.execute("CREATE STREAMED VIEW V AS SELECT v FROM S")
    assert session.changes("V") == [("+", {"v": 2}, 1)]


def test_a_failing_statement_leaves_those_before_it_done(session) -> None:
    with pytest.raises(UserError):
        session.execute("CREATE QUERY Q AS SELECT k FROM S; CREATE QUERY Q AS SELECT k FROM S")
    assert session.changes("Q") == []
    assert [row["name"] for row in session.execute("SHOW QUERIES")] == ["Q"]


def test_earlier_promise_has_no_effect(session) -> None:
    push(session, (1, 2, 7))
    session.advance(9)
    session.advance(3)
    assert session.relation("S", at=8) == [{"k": 1, "v": 2}]
    push(session, (2, 2, 8))
    assert [letter["offset"] for letter in session.dead_letters("T")] == [1]


@pytest.mark.parametrize("queries", ["", "CREATE STREAMED VIEW X AS SELECT k FROM SA;"])
def test_a_row_in_fault_that_no_record_has_caused_is_reported_with_a_source_of_its_query(queries: str):
    """It does not matter whether sources that were registered before are read by the same lane."""
    session = LocalSession()
    session.execute(f"""
        REGISTER SOURCE A (k INT) FROM a; CREATE STREAM SA OVER A KEY k;
        REGISTER SOURCE B (k INT) FROM b; CREATE STREAM SB OVER B KEY k; {queries}
        CREATE STREAMED VIEW V AS SELECT 10 / COUNT(*) AS q FROM SB
    """)
    session.push("B", [{"k": 1, "ts": 3}])
    session.advance(5)
    assert [(op, row["q"]) for op, row, _ in session.changes("V")] == [("+", 10)]
    assert session.dead_letters("A") == []
    (letter,) = session.dead_letters("B")
    assert letter["query"] == "V"
    assert letter["reason"] == 'division by zero in "10 / __v0" (in a row that exists without any record)'


def test_a_query_that_fails_stops_no_other() -> None:
    session = LocalSession()
    session.execute(
        "REGISTER SOURCE r (x BIGINT) FROM r; CREATE STREAM S OVER r KEY NULL; CREATE VIEW good AS SELECT x FROM S;"
        "CREATE AGGREGATE fails(x BIGINT): BIGINT { TABLE t(a BIGINT); INITIALIZE: ITERATE: {"
        "  INSERT INTO t VALUES (x) WHERE x > 1; WHILE EXISTS (SELECT a FROM t) { UPDATE t SET a = a * 100000; }"
        "  INSERT INTO RETURN VALUES (x); } };"
        "CREATE STREAM bad AS SELECT x, fails(x) OVER (RANGE UNBOUNDED PRECEDING) AS y FROM S;"
        "CREATE VIEW total AS SELECT COUNT(*) AS n FROM S"
    )
    session.push("r", [{"x": 1, "ts": 1}])
    session.push("r", [{"x": 2, "ts": 2}])
    with pytest.raises(InternalError, match='query "bad" failed: aggregate "fails" failed in line 1'):
        session.advance(3)
    session.push("r", [{"x": 3, "ts": 3}])
    session.advance(4)
    assert session.relation("good") == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert session.relation("total") == [{"n": 3}]
    with pytest.raises(InternalError, match='query "bad" failed'):
        session.changes("bad")
    session.execute("DROP STREAM bad; CREATE VIEW bad AS SELECT x + 1 AS y FROM S")
    assert session.relation("bad") == [{"y": 2}, {"y": 3}, {"y": 4}]


@pytest.mark.parametrize("ts", [None, "soon", 5.5, True, 2**63, -(2**63)])
def test_invalid_instants_are_refused_without_effect(session, ts: object) -> None:
    session.push("T", [{"k": 1, "v": 1, "ts": 1}])
    with pytest.raises(UserError, match="is not an instant"):
        session.advance(ts)
    with pytest.raises(UserError, match="is not an instant"):
        session.relation("V", "x" if ts is None else ts)
    session.push("T", [{"k": 2, "v": 2, "ts": 2}])
    session.advance(3)
    assert [at for _, _, at in session.changes("V")] == [1, 2]


@pytest.mark.parametrize("batch", [[1], [{"k": 1, "v": 1, "ts": 1}, None]])
def test_a_push_of_something_else_than_dicts_is_refused_before_anything_changes(session, batch: list) -> None:
    with pytest.raises(UserError, match=r"record \d of the push is not a dict"):
        session.push("T", batch)
    session.push("T", [{"k": 2, "v": 2, "ts": 2}])
    session.advance(3)
    assert [(row["k"], ts) for _, row, ts in session.changes("V")] == [(2, 2)]


def test_a_session_advances_to_points_of_time() -> None:
    moment = dt.datetime.fromisoformat
    session = LocalSession()
    session.execute("REGISTER SOURCE T (k VARCHAR, at TIMESTAMP) FROM t TIMESTAMP BY at TAGGED NONE")
    session.execute("CREATE STREAM S OVER T KEY NULL; CREATE STREAMED VIEW V AS SELECT k FROM S")
    session.push("T", [{"k": "a", "at": moment("1970-01-02T00:00:01")}])
    session.advance(moment("1970-01-02T00:00:01"))
    assert session.changes("V") == []
    session.advance(moment("1970-01-02T02:00:02+02:00"))
    assert session.changes("V") == [("+", {"k": "a"}, 86_401_000)]
    session.advance(dt.date(1970, 1, 3))
    assert session.relation("V", moment("1970-01-02")) == []
    assert session.relation("V", moment("1970-01-02T23")) == [{"k": "a"}]
    session.advance(np.int64(2 * 86_400_001))
    assert session.relation("V", dt.date(1970, 1, 3)) == [{"k": "a"}]


def test_rows_with_nan_leave_a_relation() -> None:
    """NaN equals itself and -0.0 equals 0.0, even within lists and structs."""
    session = LocalSession()
    session.execute("REGISTER SOURCE T (id INT, x DOUBLE, l DOUBLE[], s STRUCT<y DOUBLE>) FROM t TAGGED NONE")
    session.execute("CREATE STREAM S OVER T KEY NULL")
    session.execute("CREATE STREAMED VIEW V AS SELECT id, x, l, s FROM S [Range 5]")
    nan = float("nan")
    session.push("T", [{"id": 1, "x": nan, "l": [nan, None], "s": {"y": nan}, "ts": 1}])
    session.push("T", [{"id": 2, "x": -0.0, "l": [0.0], "s": None, "ts": 2}])
    session.advance(20)
    assert [row["id"] for row in session.relation("V", 6)] == [1, 2]
    assert [row["id"] for row in session.relation("V", 7)] == [2]
    assert session.relation("V") == []


def test_columns_of_one_name_are_all_in_the_answer() -> None:
    session = LocalSession()
    session.execute("CREATE TABLE t (a INT PRIMARY KEY, k INT); CREATE TABLE u (b INT PRIMARY KEY, k INT)")
    session.execute("INSERT INTO t VALUES (1, 2); INSERT INTO u VALUES (3, 4)")
    assert session.execute("SELECT * FROM t CROSS JOIN u") == [{"a": 1, "k": 2, "b": 3, "k_1": 4}]
    assert session.execute("SELECT 1 AS a, 2 AS a") == [{"a": 1, "a_1": 2}]


def test_local_session_has_no_alarms_audit_log_or_executors(session) -> None:
    assert session.execute("SHOW ALARMS") == []
    source = session.catalog.sources()[0].name
    for statement, why in (
        ("SHOW AUDIT", "keeps no audit log"),
        ("SHOW EXECUTORS", "has no executors"),
        ("ALTER EXECUTOR e SET POLICY 'fifo'", "has no executors"),
        (f"REPLAY DEAD LETTERS OF {source}", "cannot replay dead letters; push the corrected records"),
        (f"SKIP RECORD OF {source} PARTITION 0 OFFSET 0", "cannot skip records; push the corrected records"),
    ):
        with pytest.raises(UserError, match=why):
            session.execute(statement)


def test_instants_may_be_times_in_iso_8601(session) -> None:
    session.push("T", [{"k": 1, "v": 1, "ts": 1_000}, {"k": 2, "v": 2, "ts": 2_000}])
    session.advance("1970-01-01T00:00:02.001Z")
    assert [at for _, _, at in session.changes("V")] == [1_000, 2_000]
    assert session.relation("V", "1970-01-01 00:00:01") == session.relation("V", 1_000)
    assert len(session.relation("V", "1970-01-01 00:00:01")) == 1
