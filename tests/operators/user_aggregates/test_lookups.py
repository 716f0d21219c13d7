"""Rows that are found for a condition are reused by the next statement, but by no statement after a change."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from dsms.sql.binder.aggregates.defined_aggregates import DefinitionText, definition_of
from operators.core.delta import Delta
from operators.core.operator import Move
from operators.user_aggregates.fold_plan import chosen
from operators.user_aggregates.generate import COME, END, generated
from operators.user_aggregates.stream_fold import StreamFold

HEAD = """CREATE AGGREGATE f(x BIGINT): BIGINT {
  TABLE t(a BIGINT, n BIGINT);
  TABLE last(place BIGINT);
  INITIALIZE: { INSERT INTO last VALUES (0); %s } ITERATE: { %s }
}"""
XS = [random.Random(5).randrange(4) for _ in range(60)]


def body_of(text: str) -> str:
    return HEAD % (text, text)


def run(text: str, cut: int) -> list[object]:
    """The values that a body returns for each row, in batches of `cut` rows."""
    definition = definition_of(DefinitionText(body_of(text)), None)
    fold = StreamFold((), (chosen("v", definition, None, ("x",), None),), None, pa.schema([("x", pa.int64())]))
    traces, start, found = fold.traces(), 0, list[object]()
    for low in range(0, len(XS), cut):
        rows = Delta.of([("+", {"x": x}, at) for at, x in enumerate(XS[low : low + cut], low)])
        step = fold.step(rows, traces, Move(start, low + cut))
        traces, start = step.traces, low + cut
        found += step.delta.frame["v"].to_list()
    return found


COUNT = """
IF EXISTS (SELECT n FROM t WHERE a = x) { UPDATE t SET n = n + 1 WHERE a = x; }
ELSE { INSERT INTO t VALUES (x, 1); }
INSERT INTO RETURN SELECT n FROM t WHERE a = x;"""
COUNT_BY_PLACE = """
UPDATE last SET place = x + 10;
IF EXISTS (SELECT n FROM t WHERE a = (SELECT place FROM last))
  { UPDATE t SET n = n + 1 WHERE a = (SELECT place FROM last); }
ELSE { INSERT INTO t SELECT place, 1 FROM last; }
INSERT INTO RETURN VALUES ((SELECT n FROM t WHERE a = (SELECT place FROM last)));"""


@pytest.mark.parametrize("cut", [1, 7, 60])
@pytest.mark.parametrize("text", [COUNT, COUNT_BY_PLACE])
def test_counters(text: str, cut: int) -> None:
    seen, expected = Counter[int](), []
    for x in XS:
        seen[x] += 1
        expected.append(seen[x])
    assert run(text, cut) == expected


def test_condition_and_following_update_share_one_lookup() -> None:
    definition = definition_of(DefinitionText(body_of(COUNT)), None)
    source = generated(definition, nulls=False, codes=frozenset({COME | END})).source
    assert source.split("else:")[-2].count("F_t_0((P_0, ), ())") == 1, source


@pytest.mark.parametrize("cut", [1, 60])
def test_several_rows_of_a_key(cut: int) -> None:
    text = """
    IF EXISTS (SELECT n FROM t WHERE a = x) {
      UPDATE t SET n = n + 1 WHERE a = x;
      INSERT INTO t VALUES (x, 0);
      UPDATE t SET n = n + 1 WHERE a = x;
    } ELSE { INSERT INTO t VALUES (x, 1); }
    INSERT INTO RETURN SELECT sum(n) FROM t WHERE a = x;"""
    rows: dict[int, list[int]] = {}
    expected = []
    for x in XS:
        rows[x] = [n + 1 for n in [*(n + 1 for n in rows[x]), 0]] if x in rows else [1]
        expected.append(sum(rows[x]))
    assert run(text, cut) == expected


@pytest.mark.parametrize("cut", [1, 60])
def test_loop_evaluates_its_condition_again(cut: int) -> None:
    text = """
    IF NOT EXISTS (SELECT n FROM t WHERE a = x) {
      WHILE NOT EXISTS (SELECT n FROM t WHERE a = x) { INSERT INTO t VALUES (x, 3); }
    } ELSE {
      DELETE FROM t WHERE a = x;
      INSERT INTO t SELECT x, 4 WHERE NOT EXISTS (SELECT n FROM t WHERE a = x);
    }
    INSERT INTO RETURN SELECT n FROM t WHERE a = x;"""
    expected = [4 if x in XS[:at] else 3 for at, x in enumerate(XS)]
    assert run(text, cut) == expected


@pytest.mark.parametrize("cut", [1, 60])
def test_a_column_that_the_statement_changes_is_read_as_it_was(cut: int) -> None:
    text = """
    UPDATE last SET place = (SELECT place FROM last) + x;
    INSERT INTO RETURN SELECT place FROM last;"""
    assert run(text, cut) == [sum(XS[: at + 1]) for at in range(len(XS))]
