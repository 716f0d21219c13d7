"""Candidates for first rows are selected before the exchange only over synchronised, insert-only rows, without a change
of results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.testing import LocalSession
from tests.support.fed_sessions import explained, fed

SOURCE = """REGISTER SOURCE T (k VARCHAR, v INT, x DOUBLE, w INT) FROM t PARTITIONS 2 IDLE NEVER;
CREATE STREAM S OVER T KEY NULL; CREATE STREAM U OVER T KEY k;
CREATE STREAMED VIEW Fives AS SELECT Timepoint FROM R(clockStr) WHERE MOD(Timepoint, 5) = 0;"""
FIRST = """SELECT k, v, w FROM (
    SELECT k, v, w, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, w) AS place FROM R[Fives](S)
) AS ranked WHERE place <= 1"""
OTHERS = {
    "not synchronised": FIRST.replace("R[Fives](S)", "S"),
    "rows that leave": FIRST.replace("R[Fives](S)", "R[Fives](U)"),
    "two of them": FIRST.replace("<= 1", "<= 2"),
    "the second": FIRST.replace("<= 1", "= 2"),
    "of equal rank": FIRST.replace("ROW_NUMBER", "RANK"),
    "by a float": FIRST.replace("BY v DESC", "BY x DESC"),
}
END = 30


def test_rows_that_cannot_be_first_are_dropped_before_the_exchange() -> None:
    before, _ = explained(SOURCE, FIRST).split("\nexchange", 1)
    assert "PeriodicSync" in before and before.endswith("FirstCandidates")


@pytest.mark.parametrize("name", OTHERS)
def test_other_queries_keep_all_candidates(name: str) -> None:
    assert "TopK" in explained(SOURCE, OTHERS[name]) and "FirstCandidates" not in explained(SOURCE, OTHERS[name])


#: Rows as (key, value or None for NULL, tie-breaker, instant).
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]), st.none() | st.integers(0, 3), st.integers(0, 2), st.integers(1, END - 1)
    ),
    max_size=30,
)


def answered(rows, partitions: int, batch: int | None, pieces: list[int]) -> LocalSession:
    records = [{"k": k, "v": v, "x": 0.0, "w": w, "ts": ts} for k, v, w, ts in rows]
    return fed(f"{SOURCE} CREATE STREAMED VIEW First AS {FIRST}", records, END, partitions, batch, pieces)


def best(rows, key):
    """The first row of a key: NULL comes first, then the greatest v; among equal v the least w."""
    candidates = [(v, w) for k, v, w, _ in rows if k == key]
    v, w = min(candidates, key=lambda row: (row[0] is not None, -(row[0] or 0), row[1]))
    return key, v, w


@given(ROWS, st.integers(1, 3), st.sampled_from([None, 1, 3]), st.lists(st.integers(1, 5), max_size=8))
def test_first_rows_of_any_batches_and_partitions(rows, partitions, batch, pieces) -> None:
    rows = sorted(rows, key=lambda row: row[3])
    cut, whole = answered(rows, partitions, batch, pieces), answered(rows, 1, None, [])
    assert cut.changes("First") == whole.changes("First")
    for point in range(0, END, 5):
        seen = [row for row in rows if row[3] <= point]
        first = [(row["k"], row["v"], row["w"]) for row in cut.relation("First", min(point + 4, END - 1))]
        assert sorted(first, key=repr) == sorted((best(seen, key) for key in {row[0] for row in seen}), key=repr)
