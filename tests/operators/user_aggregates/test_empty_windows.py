"""Which aggregates begin again when their window is empty; the state of all others must be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model.catalog import Catalog
from dsms.sql.binder.aggregates.defined_aggregates import AggregateLookup, DefinitionText, definition_of
from dsms.testing import LocalSession
from operators.core.delta import BEGINNING, FROM, ORDER, Delta
from operators.core.operator import Move
from operators.user_aggregates.empty_windows import starts_over
from operators.user_aggregates.fold_plan import FoldCall, Frame, chosen
from operators.user_aggregates.stream_fold import StreamFold
from tests.support.strategies import examples

FRAME = Frame("range", 5)
KNOWN, TYPES = AggregateLookup(Catalog()), (pa.int64(),)
RETURN = "INSERT INTO RETURN VALUES"
#: The number of rows so far, including those that have left: the result depends on all earlier rows.
COUNTED = f"""CREATE WINDOW AGGREGATE f(x BIGINT): BIGINT {{
  TABLE state(n BIGINT); TABLE inwindow(v);
  INITIALIZE: {{ INSERT INTO state VALUES (1); {RETURN} (1); }}
  ITERATE: {{ UPDATE state SET n = n + 1; INSERT INTO RETURN SELECT n FROM state; }} EXPIRE: {{ }}
}}"""
#: Only the rows of the window are kept, but the first row of all has another result than the first row of a window.
FIRST = f"""CREATE WINDOW AGGREGATE f(x BIGINT): BIGINT {{
  TABLE inwindow(v);
  INITIALIZE: {{ {RETURN} (-1); }} ITERATE: {{ {RETURN} (oldest()); }} EXPIRE: {{ }}
}}"""
#: EXPIRE returns a value for a leaving row, when the next row arrives.
LEAVES = f"""CREATE AGGREGATE f(x BIGINT): BIGINT {{
  TABLE state(n BIGINT);
  INITIALIZE: {{ INSERT INTO state VALUES (1); }} ITERATE: {{ UPDATE state SET n = n + 1; }}
  TERMINATE: {{ INSERT INTO RETURN SELECT n FROM state; }}
  EXPIRE: {{ UPDATE state SET n = n - 1; {RETURN} (-x); }}
}}"""
#: These begin again: one reads only the rows of the window, the other one has a table of any number of rows.
OLDEST = f"""CREATE WINDOW AGGREGATE f(x BIGINT): BIGINT {{
  TABLE inwindow(v);
  INITIALIZE: {{ {RETURN} (x); }} ITERATE: {{ {RETURN} (oldest()); }} EXPIRE: {{ }}
}}"""
DISTINCT = """CREATE AGGREGATE f(x BIGINT): BIGINT {
  TABLE seen(v BIGINT, n BIGINT);
  INITIALIZE: ITERATE: {
    UPDATE seen SET n = n + 1 WHERE v = x;
    IF NOT EXISTS (SELECT v FROM seen WHERE v = x) { INSERT INTO seen VALUES (x, 1); }
  }
  TERMINATE: { INSERT INTO RETURN SELECT count(v) FROM seen; }
  EXPIRE: { UPDATE seen SET n = n - 1 WHERE v = x; DELETE FROM seen WHERE n = 0; }
}"""


def written(text: str) -> FoldCall:
    definition = definition_of(DefinitionText(text), None)
    window = definition.window
    return chosen("v", None if window else definition, definition if window else None, ("x",), FRAME)


def built_in(name: str) -> FoldCall:
    return chosen("v", KNOWN.base(name, TYPES), KNOWN.window(name, TYPES), ("x",), FRAME)


@pytest.mark.parametrize("name", ["sum", "count", "min", "max"])
def test_builtin_aggregates_begin_again_when_empty(name: str) -> None:
    assert starts_over(built_in(name))


@pytest.mark.parametrize(
    ("text", "forgets"), [(COUNTED, False), (FIRST, False), (LEAVES, False), (OLDEST, True), (DISTINCT, True)]
)
def test_which_user_aggregates_begin_again_when_empty(text: str, forgets: bool) -> None:
    assert starts_over(written(text)) == forgets


HISTORIES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-2, 2), st.integers(0, 9)), max_size=20).map(
    lambda steps: [(k, x, sum(step for _, _, step in steps[: at + 1])) for at, (k, x, _) in enumerate(steps)]
)


def run(call: FoldCall, frame: Frame, rows: Sequence[tuple[str, int, int]], cuts: Sequence[int]) -> list[Any]:
    schema = pa.schema([("k", pa.string()), ("x", pa.int64())])
    operator = StreamFold(("k",), (call,), frame, schema)
    delta = Delta.of([("+", {"k": k, "x": x}, at) for k, x, at in rows], schema)
    traces, start, results = operator.traces(), BEGINNING, []
    for end in [*sorted(set(cuts)), 300]:
        step = operator.step(delta.between(start, end), traces, Move(start, end))
        traces, start = step.traces, end
        results += step.delta.frame.select(FROM, ORDER, "k", "x", "v").rows()
    return sorted(results)


@settings(max_examples=examples(40), deadline=None)
@given(
    HISTORIES,
    st.sampled_from([COUNTED, FIRST, LEAVES, OLDEST, DISTINCT]),
    st.sampled_from([FRAME, Frame("range", 5, 4), Frame("range", 5, active=True)]),
    st.lists(st.integers(0, 180), max_size=8),
)
def test_results_do_not_depend_on_batches(
    rows: list[tuple[str, int, int]], text: str, frame: Frame, cuts: list[int]
) -> None:
    assert run(written(text), frame, rows, cuts) == run(written(text), frame, rows, [])


def test_an_expire_that_nobody_sees_does_not_fail_in_one_batch_and_pass_in_another() -> None:
    """The total overflows while rows leave and the group begins again: no arriving row reads this total."""
    most = 2**63 - 1
    rows = [("a", -most, 0), ("a", most, 1), ("a", most, 2), ("a", 7, 99)]
    call = built_in("sum")
    assert [row[-1] for row in run(call, FRAME, rows, [])] == [-most, 0, most, 7]
    assert run(call, FRAME, rows, [50]) == run(call, FRAME, rows, [])


def test_a_session_holds_the_partitions_of_its_last_window() -> None:
    session = LocalSession()
    session.execute(
        "CREATE STREAM S (k BIGINT, x BIGINT, at BIGINT) ORDER BY at SOURCE 's';"
        "CREATE VIEW v AS SELECT k, sum(x) OVER (PARTITION BY k RANGE 10 PRECEDING) AS s FROM S"
    )
    for begin in range(0, 5_000, 500):
        session.push("S_source", [{"k": at, "x": 1, "at": at} for at in range(begin, begin + 500)])
    session.advance(5_000)
    assert len(session.changes("v")) == 5_000
    (operator,) = [row for row in session.execute("SHOW OPERATORS") if row["operator"] == "StreamFold"]
    assert operator["state rows"] <= 3 * 1_000
    session.advance(6_000)
    (operator,) = [row for row in session.execute("SHOW OPERATORS") if row["operator"] == "StreamFold"]
    assert operator["state rows"] == 0
