"""NaN equals itself, even as the only column by which rows are looked up, for all batches."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dsms.testing import LocalSession

DECLARED = """REGISTER SOURCE T (x DOUBLE) FROM t; CREATE STREAM A OVER T KEY NULL;
CREATE AGGREGATE counted(y DOUBLE): INT {
  TABLE state(n INT);
  TABLE seen(y DOUBLE);
  INITIALIZE: { INSERT INTO state VALUES (1); INSERT INTO seen VALUES (y); }
  ITERATE:    { UPDATE state SET n = n + 1; INSERT INTO seen VALUES (y); }
  TERMINATE:  { INSERT INTO RETURN SELECT COUNT(*) + MAX(n) FROM state, seen; }
};"""


def result(query: str, batch: int | None) -> list[dict[str, Any]]:
    """The result after three records with NaN, pushed one after the other."""
    session = LocalSession(batch_records=batch)
    session.execute(f"{DECLARED} CREATE STREAMED VIEW Q AS {query}")
    for at in (1, 2, 3):
        session.push("T", [{"x": "NaN", "ts": at}])
        session.advance(at)
    session.advance(4)
    return session.relation("Q", 3)


@pytest.mark.parametrize("batch", [1, None])
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT STREAMED DISTINCT x FROM A [Range 2]", 1),
        ("SELECT STREAMED x FROM A [Range 2] WHERE x IN (SELECT x FROM A [Range 1])", 3),
        ("SELECT STREAMED x FROM A [Range 2] EXCEPT SELECT x FROM A [Range 2] WHERE x < 0", 1),
        ("SELECT STREAMED x FROM A [Partition By x Rows 2]", 2),
        (
            "WITH RECURSIVE r (x) AS (SELECT x FROM A UNION SELECT x * 0.5 FROM r WHERE x > 1 AND x < 9) "
            "SELECT STREAMED x FROM r",
            1,
        ),
        (
            "WITH RECURSIVE r (x, n) AS (SELECT x, 0 FROM A UNION SELECT A.x, n + 1 FROM r, A "
            "WHERE r.x = A.x AND n < 3) SELECT STREAMED x FROM r",
            4,
        ),
        (
            "WITH RECURSIVE r (x, n) AS (SELECT x, 0 FROM A UNION SELECT x, n + 1 FROM r WHERE x IN (SELECT x FROM A) "
            "AND n < 3) SELECT STREAMED x FROM r",
            4,
        ),
    ],
)
def test_nan_is_found_again(query: str, rows: int, batch: int | None) -> None:
    found = result(query, batch)
    assert len(found) == rows and all(math.isnan(row["x"]) for row in found)


@pytest.mark.parametrize("batch", [1, None])
def test_a_written_aggregate_finds_the_state_of_its_group_again(batch: int | None) -> None:
    (row,) = result("SELECT STREAMED x, counted(x) AS n FROM R(A) GROUP BY x", batch)
    assert math.isnan(row["x"]) and row["n"] == 3 + 3
