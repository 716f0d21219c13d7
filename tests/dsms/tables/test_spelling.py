"""One-time queries have the meaning that the language defines, although their text for DuckDB differs."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.testing import LocalSession
from operators.core.errors import SqlError
from tests.support.strategies import examples

NUMBERS = st.none() | st.integers(0, 2)
ROWS = st.tuples(NUMBERS, NUMBERS)
ORDERS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Row = tuple[int | None, int | None]


def compared(sign: str, left: Row, right: Row) -> bool | None:
    """Compares rows by the first columns that differ. The result is unknown if one of the columns up to there is
    NULL."""
    for a, b in zip(left, right, strict=True):
        if a is None or b is None:
            return None
        if a != b:
            return ORDERS[sign](a, b)
    return ORDERS[sign](0, 0)


def both(one: bool | None, other: bool | None) -> bool | None:
    return False if False in (one, other) else None if None in (one, other) else True


def shown(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def text(row: Row) -> str:
    return f"({', '.join(map(shown, row))})"


def where(table: LocalSession, condition: str) -> set[int]:
    """The rows of a table that satisfy a condition. Checks that SELECT and UPDATE agree."""
    table.execute("UPDATE t SET met = 0")
    table.execute(f"UPDATE t SET met = 1 WHERE {condition}")
    changed = {row["id"] for row in table.execute("SELECT id FROM t WHERE met = 1")}
    found = {row["id"] for row in table.execute(f"SELECT id FROM t WHERE {condition}")}
    assert found == changed == {row["id"] for row in table.execute(f"SELECT id, {condition} AS c FROM t") if row["c"]}
    return found


@settings(max_examples=examples(12))
@given(st.lists(ROWS, min_size=1, max_size=4), ROWS, ROWS, st.sampled_from(list(ORDERS)))
def test_rows_are_compared_by_their_columns(rows: list[Row], low: Row, high: Row, sign: str) -> None:
    table = LocalSession()
    table.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b BIGINT, met INT)")
    values = ", ".join(f"({number}, {text(row)[1:-1]}, 0)" for number, row in enumerate(rows))
    table.execute(f"INSERT INTO t VALUES {values}")

    def those(truth: Callable[[Row], bool | None], wanted: bool) -> set[int]:
        return {number for number, row in enumerate(rows) if truth(row) is wanted}

    def inside(row: Row) -> bool | None:
        return both(compared(">=", row, low), compared("<=", row, high))

    def ordered(row: Row) -> bool | None:
        return compared(sign, row, low)

    between = f"(a, b) BETWEEN {text(low)} AND {text(high)}"
    assert where(table, between) == those(inside, wanted=True)
    assert where(table, f"NOT ({between})") == those(inside, wanted=False)
    assert where(table, between.replace("BETWEEN", "NOT BETWEEN")) == those(inside, wanted=False)
    assert where(table, f"(a, b) {sign} {text(low)}") == those(ordered, wanted=True)
    assert where(table, f"NOT (a, b) {sign} {text(low)}") == those(ordered, wanted=False)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("NOT_NULL(NOT_NULL(a) + NOT_NULL(1))", 2),
        ("FORMAT('%s!', FORMAT('<%s>', NOT_NULL(a)))", "<1>!"),
        ("OVERLAY(FORMAT('%s', 'abc') PLACING NOT_NULL('x') FROM 2)", "axc"),
        ("CASE WHEN NOT_NULL(a) BETWEEN 1 AND NOT_NULL(3) THEN 5 END", 5),
        ("ARRAY[FORMAT('%s', 'x')] @> ARRAY[FORMAT('%s', 'x')]", True),
        ("JSON_BUILD_ARRAY(NOT_NULL(a), JSON_BUILD_ARRAY(FORMAT('%s', 'x')))", '[1,["x"]]'),
    ],
)
def test_calls_within_other_calls_have_their_meaning(expression: str, value: object) -> None:
    table = LocalSession()
    table.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    assert table.execute(f"SELECT {expression} AS v FROM t") == [{"v": value}]


@settings(max_examples=examples(12))
@given(st.lists(NUMBERS, min_size=1, max_size=4), st.lists(NUMBERS, min_size=1, max_size=3))
def test_any_over_an_array_has_the_same_value_in_every_clause(rows: list[int | None], wanted: list[int | None]) -> None:
    table = LocalSession()
    table.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
    table.execute(f"INSERT INTO t VALUES {', '.join(f'({number}, {shown(a)})' for number, a in enumerate(rows))}")

    def met(a: int | None) -> bool | None:
        unknown = a is None or None in wanted
        return True if a is not None and a in wanted else None if unknown else False

    condition = f"a = ANY (ARRAY[{', '.join(map(shown, wanted))}])"
    groups = table.execute(f"SELECT {condition} AS met, COUNT(*) AS c FROM t GROUP BY {condition}")
    assert {group["met"]: group["c"] for group in groups} == Counter(map(met, rows))
    listed = f"ARRAY_AGG(DISTINCT {condition} ORDER BY {condition} DESC NULLS LAST)"
    assert table.execute(f"SELECT {listed} AS l FROM t") == [{
        "l": sorted(set(map(met, rows)), key=[True, False, None].index)
    }]  # fmt: skip


def test_a_null_in_not_null_is_an_error() -> None:
    table = LocalSession()
    table.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (NULL)")
    with pytest.raises(SqlError, match=r'NULL in "NOT_NULL\(a\)"'):
        table.execute("SELECT NOT_NULL(a) FROM t")


def test_calls_within_operands_of_one_another_are_computed_once_each() -> None:
    table = LocalSession()
    nested = "OVERLAY(OVERLAY('a' PLACING 'b' FROM 1) PLACING 'c' FROM 1)"
    assert table.execute(f"SELECT {nested} AS x") == [{"x": "c"}]
