"""Intake: the conditions under which a record is admitted, and the reasons of refusals."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from dsms.testing import LocalSession

DAY = datetime.datetime.fromisoformat("2024-01-02T03:04:05")
SECOND = datetime.datetime.fromisoformat("1970-01-01T00:00:01")


def session_with(columns: str, clauses: str = "", key: str = "k") -> LocalSession:
    session = LocalSession()
    session.execute(f"REGISTER SOURCE T ({columns}) FROM t {clauses}; CREATE STREAM S OVER T KEY {key}")
    return session


def reasons(session: LocalSession) -> dict:
    return {letter["offset"]: letter["reason"] for letter in session.dead_letters("T")}


def test_each_refusal_names_its_reason_and_keeps_the_record() -> None:
    session = session_with("k INT NOT NULL, v INT")
    records = [
        {"k": "x", "ts": 1},
        {"v": 1, "ts": 1},
        {"k": 1},
        {"k": 1, "ts": "soon"},
        {"k": 1, "ts": 2**62},
        {"k": 1, "ts": 1, "op": "?"},
        {"k": 1, "ts": 5},
        {"k": 2, "ts": 4},
    ]
    session.push("T", records)
    session.advance(9)
    reason_at = reasons(session)
    assert reason_at[0] == 'column "k": expected INT, got "x"'
    assert "k" in reason_at[1]
    assert reason_at[2] == 'missing instant: "ts" is NULL'
    assert reason_at[3] == "invalid instant: \"ts\" is 'soon' (str), not a whole number"
    assert reason_at[4] == 'instant in "ts" is out of range'
    assert reason_at[5] == 'unknown operation in "op"; must be one of +, u, -'
    assert reason_at[7] == "late: instant 4 is below the frontier of its partition at this record"
    assert sorted(reason_at) == [0, 1, 2, 3, 4, 5, 7]
    assert [letter["record"] for letter in session.dead_letters("T")] == [records[at] for at in sorted(reason_at)]
    assert session.changes("S") == [("+", {"k": 1, "v": None}, 5)]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, 'missing instant: "ts" is NULL'),
        (True, 'invalid instant: "ts" is True (bool), not a whole number'),
        (1.0, 'invalid instant: "ts" is 1.0 (float), not a whole number'),
        ("7", "invalid instant: \"ts\" is '7' (str), not a whole number"),
        (datetime.time(1, 2), 'invalid instant: "ts" is datetime.time(1, 2) (time), not a whole number'),
        (["x" * 500], f'invalid instant: "ts" is [\'{"x" * 78}… (list), not a whole number'),
        (2**63, 'instant in "ts" is out of range'),
        (-(10**30), 'instant in "ts" is out of range'),
    ],
)
def test_invalid_instant_is_refused_with_its_type(given: object, why: str) -> None:
    session = session_with("k INT")
    session.push("T", [{"k": 1, "ts": 1}, {"k": 2, "ts": given}, {"k": 3, "ts": 3}])
    session.advance(9)
    assert reasons(session) == {1: why}
    assert [letter["record"] for letter in session.dead_letters("T")] == [{"k": 2, "ts": given}]
    assert [row for _, row, _ in session.changes("S")] == [{"k": 1}, {"k": 3}]


@pytest.mark.parametrize("given", [np.int64(1_000), SECOND, SECOND.replace(tzinfo=datetime.UTC)])
def test_push_accepts_the_same_instants_as_advance(given: object) -> None:
    session = session_with("k INT")
    session.push("T", [{"k": 1, "ts": given}])
    session.advance(9_999)
    assert session.changes("S") == [("+", {"k": 1}, 1_000)]


@pytest.mark.parametrize(
    ("type_", "value", "instant"),
    [
        ("BIGINT", 1234, 1234),
        ("INT", -5, -5),
        ("TIMESTAMP", DAY, 1_704_164_645_000),
        ("DATE", DAY.date(), 1_704_153_600_000),
    ],
)
def test_instant_may_be_in_a_column(type_, value, instant) -> None:
    session = session_with(f"k INT, at {type_}", "TIMESTAMP BY at")
    session.push("T", [{"k": 1, "at": value, "ts": 99}, {"k": 2}])
    session.advance(instant + 1)
    assert session.changes("S") == [("+", {"k": 1, "at": value}, instant)]
    assert reasons(session) == {1: 'missing instant: "at" is NULL'}


def test_operation_may_be_in_a_column_and_deletions_need_only_the_key() -> None:
    session = session_with("k INT NOT NULL, v INT NOT NULL", "TAGGED BY tag")
    session.push(
        "T",
        [
            {"k": 1, "v": 2, "ts": 1, "tag": "+"},
            {"k": 1, "ts": 2, "tag": "-"},
            {"k": 1, "ts": 3, "tag": "u"},
            {"k": 1, "v": 1, "ts": 3},
            {"k": 1, "v": 1, "ts": 3, "tag": "x"},
        ],
    )
    session.advance(9)
    assert session.changes("S") == [("+", {"k": 1, "v": 2}, 1), ("-", {"k": 1}, 2)]
    assert reasons(session) == {
        2: 'column "v" is NULL but declared NOT NULL',
        3: 'unknown operation in "tag"; must be one of +, u, -',
        4: 'unknown operation in "tag"; must be one of +, u, -',
    }


def test_untagged_sources_ignore_operations() -> None:
    session = session_with("k INT", "TAGGED NONE")
    session.push("T", [{"k": 1, "ts": 1, "op": "-"}])
    session.advance(2)
    assert session.changes("S") == [("+", {"k": 1}, 1)]


def test_a_record_within_the_slack_is_not_late() -> None:
    session = session_with("k INT", "SLACK 3", key="NULL")
    session.push("T", [{"k": ts, "ts": ts} for ts in (10, 7, 6, 8)])
    assert session.changes("S") == []
    session.advance(11)
    assert [ts for _, _, ts in session.changes("S")] == [7, 8, 10]
    assert list(reasons(session)) == [2]


def test_records_with_latent_timestamps_are_never_late() -> None:
    session = LocalSession(batch_records=1)
    session.execute("REGISTER SOURCE T (k INT) FROM t TIMESTAMP LATENT; CREATE STREAM S OVER T KEY NULL")
    session.push("T", [{"k": 1, "ts": 5}, {"k": 2, "ts": 3}])
    session.advance(8)
    session.push("T", [{"k": 3, "ts": 7}, {"k": 4, "ts": 9}])
    session.advance(20)
    assert session.changes("S") == [("+", {"k": k}, ts) for k, ts in [(1, 5), (2, 5), (3, 8), (4, 9)]]
    assert session.dead_letters("T") == []
