"""NaN equals itself, also as the only column that rows are found by, whatever the batches."""

from __future__ import annotations

import math

import pytest

from dsms.testing import LocalSession

DECLARED = "REGISTER SOURCE T (x DOUBLE) FROM t; CREATE STREAM A OVER T KEY NULL;"


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
    ],
)
def test_nan_is_found_again(query: str, rows: int, batch: int | None) -> None:
    session = LocalSession(batch_records=batch)
    session.execute(f"{DECLARED} CREATE STREAMED VIEW Q AS {query}")
    for at in (1, 2, 3):
        session.push("T", [{"x": "NaN", "ts": at}])
        session.advance(at)
    session.advance(4)
    found = session.relation("Q", 3)
    assert len(found) == rows and all(math.isnan(row["x"]) for row in found)
