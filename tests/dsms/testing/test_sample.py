"""Sample(p): which rows it keeps, compared with splitmix64 in Python integers; with joins, groups, windows and keys."""

from __future__ import annotations

from collections import Counter

import pytest

from dsms.testing import LocalSession
from operators.core.errors import UserError
from tests.support.splitmix import chance

CUTS = [(1, None), (3, 90)]
ROWS = 600
SOURCES = """
REGISTER SOURCE T (k INT, v BIGINT) FROM t;
CREATE STREAM S OVER T KEY NULL;
CREATE STREAM K OVER T KEY k;
"""


def records() -> list[dict[str, int]]:
    return [{"k": at % 7, "v": at * at % 101, "ts": at // 3} for at in range(ROWS)]


def kept(percent: float, salt: int = 0) -> list[dict[str, int]]:
    """The records of the first source that are kept. The position of a record in the list is its offset."""
    return [record for at, record in enumerate(records()) if chance(at, salt) < percent / 100]


@pytest.fixture(params=CUTS, ids=str)
def session(request: pytest.FixtureRequest) -> LocalSession:
    made = LocalSession(*request.param)
    made.execute(SOURCES)
    return made


def filled(session: LocalSession, *statements: str) -> None:
    for statement in statements:
        session.execute(statement)
    session.push("T", records())
    session.advance(ROWS)


def test_a_sample_of_a_stream_keeps_records_by_their_place(session: LocalSession) -> None:
    filled(session, "CREATE QUERY q AS SELECT Istream(k, v) FROM S Sample(10)")
    rows = [(row["k"], row["v"], ts) for _, row, ts in session.changes("q")]
    assert rows == [(record["k"], record["v"], record["ts"]) for record in kept(10)]
    assert abs(len(rows) - ROWS / 10) < 5 * (ROWS * 0.1 * 0.9) ** 0.5


def test_groups_and_conditions_are_over_the_sample(session: LocalSession) -> None:
    filled(
        session, "CREATE QUERY q AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM S Sample(30) WHERE v > 20 GROUP BY k"
    )
    rows = [record for record in kept(30) if record["v"] > 20]
    counts, sums = Counter(record["k"] for record in rows), Counter[int]()
    for record in rows:
        sums[record["k"]] += record["v"]
    groups = {row["k"]: (row["n"], row["total"]) for row in session.relation("q")}
    assert groups == {k: (counts[k], sums[k]) for k in counts}


@pytest.mark.parametrize("text", ["S Sample(25) [Range 10]", "S [Range 10] Sample(25)"])
def test_a_window_is_over_the_sample(session: LocalSession, text: str) -> None:
    filled(session, f"CREATE VIEW q AS SELECT COUNT(*) AS n FROM {text}")
    for at in (5, 50, 150):
        expected = sum(at - 10 <= record["ts"] <= at for record in kept(25))
        assert session.relation("q", at=at) == [{"n": expected}]


def test_a_row_window_holds_the_last_rows_of_the_sample(session: LocalSession) -> None:
    filled(session, "CREATE VIEW q AS SELECT k, v FROM S Sample(20) [Rows 5]")
    counts = Counter((row["k"], row["v"]) for row in session.relation("q"))
    assert counts == Counter((record["k"], record["v"]) for record in kept(20)[-5:])


def test_a_join_of_a_sample(session: LocalSession) -> None:
    filled(session, "CREATE QUERY q AS SELECT S.v, K.v AS last FROM S Sample(5), K WHERE S.k = K.k")
    last = {record["k"]: record["v"] for record in records()}
    counts = Counter((row["v"], row["last"]) for row in session.relation("q"))
    assert counts == Counter((record["v"], last[record["k"]]) for record in kept(5))


def test_a_sample_of_a_sample_is_independent_of_it(session: LocalSession) -> None:
    filled(session, "CREATE QUERY q AS SELECT Istream(v) FROM (SELECT k, v FROM S Sample(50)) T Sample(50)")
    both = [record["v"] for at, record in enumerate(records()) if chance(at, 0) < 0.5 and chance(at, 1) < 0.5]
    assert [row["v"] for _, row, _ in session.changes("q")] == both


def test_a_key_is_in_the_sample_or_not_for_ever() -> None:
    session = LocalSession(2, 400)
    session.execute("REGISTER SOURCE T (k INT, v BIGINT) FROM t; CREATE STREAM K OVER T KEY k")
    session.execute("CREATE VIEW q AS SELECT k, v FROM K Sample(40)")
    session.push("T", [{"k": at % 500, "v": at, "ts": at} for at in range(1_500)])
    session.advance(2_000)
    keys = [{row["k"] for row in session.relation("q", at=at)} for at in (499, 999, 1_499)]
    assert keys[0] == keys[1] == keys[2]
    assert abs(len(keys[0]) - 200) < 5 * (500 * 0.4 * 0.6) ** 0.5
    assert {row["v"] for row in session.relation("q", at=1_200)} == {k + (1_000 if k <= 200 else 500) for k in keys[0]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S Sample(0)", "above 0 and at most 100"),
        ("S Sample(100.5)", "above 0 and at most 100"),
        ("S [Rows 5] Sample(10)", "needs a stream or a relation with a key"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    session = LocalSession()
    session.execute(SOURCES)
    with pytest.raises(UserError, match=message):
        session.execute(f"CREATE QUERY q AS SELECT STREAMED v FROM {text}")
