"""Several windows in one SELECT: each is over the rows of the stream, independently of the others."""

from __future__ import annotations

import itertools

import pytest

from dsms.testing import LocalSession

SOURCE = """
REGISTER SOURCE r (x BIGINT) FROM r; CREATE STREAM S OVER r KEY NULL;
CREATE AGGREGATE big(x BIGINT): BIGINT {
  INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x) WHERE x > 5; }
};
CREATE AGGREGATE usum(x BIGINT): BIGINT {
  TABLE state(total BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (x); }
  ITERATE: { UPDATE state SET total = total + x; }
  TERMINATE: { INSERT INTO RETURN SELECT total FROM state; }
  EXPIRE: { UPDATE state SET total = total - x; }
};
CREATE AGGREGATE twice(x BIGINT): BIGINT {
  INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x); INSERT INTO RETURN VALUES (-x) WHERE x > 5; }
};
"""
ITEMS = {
    "big(x) OVER (RANGE UNBOUNDED PRECEDING) AS b": ("b", [9, 7]),
    "usum(x) OVER (ROWS 2 PRECEDING) AS s": ("s", [12, 20]),
    "sum(x) OVER (RANGE 3 PRECEDING) AS t": ("t", [15, 22]),
    "usum(x) OVER (PARTITION BY x % 2 ROWS 1 PRECEDING) AS p": ("p", [10, 16]),
}


@pytest.mark.parametrize("order", list(itertools.permutations(ITEMS)), ids=str)
def test_every_order_of_the_windows_gives_the_same(order: tuple[str, ...]) -> None:
    session = LocalSession(2)
    session.execute(f"{SOURCE} CREATE STREAM v AS SELECT x, {', '.join(order)} FROM S")
    session.push("r", [{"x": x, "ts": ts} for ts, x in enumerate((3, 1, 2, 9, 4, 7))])
    session.advance(9)
    rows = [row for _, row, _ in session.changes("v")]
    assert [row["x"] for row in rows] == [9, 7]
    for name, values in ITEMS.values():
        assert [row[name] for row in rows] == values


def test_aggregates_over_different_windows_are_in_one_row() -> None:
    session = LocalSession()
    session.execute(
        f"{SOURCE} CREATE STREAM v AS SELECT x, usum(x) OVER (ROWS 1 PRECEDING) AS s,"
        " twice(x) OVER (RANGE UNBOUNDED PRECEDING) AS t FROM S"
    )
    session.push("r", [{"x": x, "ts": ts} for ts, x in enumerate((3, 9))])
    session.advance(9)
    rows = sorted((row for _, row, _ in session.changes("v")), key=lambda row: (row["x"], -row["t"]))
    assert rows == [{"x": 3, "s": 3, "t": 3}, {"x": 9, "s": 12, "t": 9}, {"x": 9, "s": None, "t": -9}]
