"""Aggregates have the values of their first names when called by others, in views and in SELECTs that run once."""

from __future__ import annotations

import pytest

from dsms.testing import LocalSession
from operators.aggregates import ALIASES

ROWS = "(1, 3, 'b', TRUE), (2, 4, 'a', FALSE), (3, 9, 'b', TRUE), (4, NULL, NULL, NULL), (5, 2, 'c', TRUE)"
ARGUMENTS = {
    "arg_max": "k, v",
    "arg_min": "k, v",
    "string_agg": "n ORDER BY k",
    "array_agg": "k ORDER BY k",
} | dict.fromkeys(("bool_and", "bool_or", "count_if"), "b")
FRACTIONS = ("percentile_cont", "percentile_disc", "approx_percentile")


@pytest.fixture(scope="module")
def session() -> LocalSession:
    made = LocalSession()
    made.execute("CREATE TABLE T (k INT PRIMARY KEY, v INT, n VARCHAR, b BOOLEAN)")
    made.execute(f"INSERT INTO T VALUES {ROWS}")
    return made


@pytest.mark.parametrize("name", sorted(set(ALIASES) - {"first_value", "last_value"}))
def test_a_select_that_runs_once_has_the_value_of_the_first_name(session: LocalSession, name: str) -> None:
    first = ALIASES[name]
    arguments = "v, 0.5" if first in FRACTIONS else ARGUMENTS.get(first, "v")
    view = f"V_{name}"
    session.execute(f"CREATE VIEW {view} AS SELECT {first}({arguments}) AS x, {name}({arguments}) AS y FROM T")
    (kept,) = session.execute(f"SELECT x, y FROM {view}")
    (once,) = session.execute(f"SELECT {name}({arguments}) AS y FROM T")
    assert kept["x"] == kept["y"] == once["y"]
