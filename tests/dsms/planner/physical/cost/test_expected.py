"""The expectations of EXPLAIN and EXPLAIN ANALYZE, compared with measurements of the same queries."""

from __future__ import annotations

import numpy as np
import pytest

from dsms.testing.local_session import LocalSession

SPAN, BATCH = 12_000, 600
STREAMS = """
REGISTER SOURCE A (k INT, v INT) FROM a; CREATE STREAM SA OVER A KEY NULL;
REGISTER SOURCE B (k INT, w INT) FROM b; CREATE STREAM SB OVER B KEY NULL;
"""
JOIN = "SELECT x.k, v, w FROM SA [Range 499] x, SB [Range 299] y WHERE x.k = y.k"


def fed(views: str) -> LocalSession:
    """A session with two Poisson streams that have reached their steady state, batch by batch."""
    session, rng = LocalSession(), np.random.default_rng(1)
    session.execute(STREAMS + views)
    for start in range(0, SPAN, BATCH):
        for source, value, gap in (("A", "v", 10.0), ("B", "w", 20.0)):
            times = start + np.sort(rng.integers(BATCH, size=rng.poisson(BATCH / gap)))
            records = [{"k": int(rng.integers(50)), value: int(rng.integers(100)), "ts": int(ts)} for ts in times]
            session.push(source, records)
        session.advance(start + BATCH)
    return session


def analysed(session: LocalSession, view: str) -> dict[str, dict[str, object]]:
    """The rows of EXPLAIN ANALYZE by the kind of operator."""
    return {str(row["operator"]).split(":")[0].split()[0]: row for row in session.execute(f"EXPLAIN ANALYZE {view}")}


@pytest.mark.parametrize(
    ("sql", "operator"),
    [
        ("SELECT k FROM SA [Range 999] WHERE v < 25", "Filter"),
        (JOIN, "Join"),
        ("SELECT COUNT(*) AS n FROM SA [Range 999]", "GroupBy"),
        ("SELECT k, COUNT(*) AS n FROM SA [Range 999] GROUP BY k", "GroupBy"),
        ("SELECT k, COUNT(*) AS n FROM SA GROUP BY k", "GroupBy"),
        ("SELECT DISTINCT k FROM SA [Range 299]", "Distinct"),
        ("SELECT v FROM SA [Partition By k Rows 3]", "RowWindow"),
        ("SELECT COUNT(*) AS n FROM SA [Range 999 Slide 100]", "GroupBy"),
        ("SELECT k, w FROM R(SB)", "Stamp"),
    ],
)
def test_expected_rows_are_near_those_that_are_measured(sql: str, operator: str) -> None:
    session = fed(f"CREATE VIEW Q AS {sql};")
    row = analysed(session, "Q")[operator]
    assert row["expected"] == pytest.approx(row["rows out/s"], rel=0.2)
    rows = [(row["expected state"], row["state rows"]) for row in analysed(session, "Q").values()]
    expected, measured = (sum(column) for column in zip(*rows, strict=True))
    assert expected == pytest.approx(measured, rel=0.45, abs=5)


def test_a_query_that_does_not_run_is_expected_to_take_what_it_then_takes() -> None:
    """The selectivity of the join, one in fifty, is unknown before it has run. It is estimated as if the join column
    were a key of one side."""
    session = fed(f"CREATE VIEW F AS SELECT k FROM SA; CREATE VIEW G AS SELECT k FROM SB; CREATE VIEW Q AS {JOIN};")
    plan = [str(row["plan"]) for row in session.execute(f"EXPLAIN {JOIN.replace('499', '999')}")]
    expected, own = plan[-2:]
    assert expected.startswith("expected: ") and " changes a second; " in expected and expected.endswith(" of a core")
    assert own.startswith("of this, not shared with other queries: ")
    kept = float(expected.split("; ")[1].split(" rows")[0])
    alive = 1000 / 10 + 300 / 20
    assert kept >= alive and kept == pytest.approx(alive, rel=0.5)


def test_no_expectations_without_measurements() -> None:
    session = LocalSession()
    session.execute(STREAMS + f"CREATE VIEW Q AS {JOIN}")
    assert "expected" not in session.explain("Q")
    assert {row["expected"] for row in session.execute("EXPLAIN ANALYZE Q")} == {None}


def test_source_without_records_is_reported_as_unknown() -> None:
    session = LocalSession()
    session.execute(STREAMS + f"CREATE VIEW F AS SELECT k FROM SA; CREATE VIEW Q AS {JOIN}")
    for at in range(3):
        session.push("A", [{"k": 1, "v": 1, "ts": at * 10}])
        session.advance(at * 10)
    assert session.explain("Q").splitlines()[-1].startswith("expected: unknown")
    assert "expected: 100 changes a second" not in session.explain("Q")
    assert "changes a second; 0 rows of state" in session.explain("F")
