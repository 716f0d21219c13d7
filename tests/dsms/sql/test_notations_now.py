"""Predicates over Now: their ranges, compared with the predicate evaluated at every instant."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sqlglot import exp

from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.sql.binder.relation import Context, Relation
from dsms.sql.binder.scalars.now_bounds import POINTS
from dsms.sql.binder.scalars.now_predicates import now_filter
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.queries import parse_query
from operators.core.errors import SqlError
from operators.expressions import Expression, evaluate, to_sql
from operators.sync.sync_points import Periodic
from operators.windows.now_filter import NowRange
from tests.support import duck_engine
from tests.support.strategies import examples

COLUMNS = pa.schema([pa.field("TS", pa.int64()), ("a", pa.int32()), ("at", pa.timestamp("us"))])
ROWS = [(ts, a) for ts in (-7, 0, 3, 8, None) for a in (-3, 0, 2, None)]
INSTANTS = range(-25, 26)


def ranges(condition: str, points: Periodic | None = None) -> tuple[NowRange, ...]:
    where = parse_query(f"SELECT 1 FROM S WHERE {condition}").args["where"].this
    for column in where.find_all(exp.Column):
        if points is not None and column.name.lower() == "now":
            column.meta[POINTS] = points
    scope = Scope(COLUMNS, "R")
    relation = Relation(logical.Values(COLUMNS, ()), scope, scope.entries)
    node = now_filter([where], relation, Context(Catalog()))
    assert isinstance(node, logical.NowFilter)
    return node.ranges


def holds(condition: str, points: Periodic | None = None) -> set[tuple[int, int]]:
    """The (row, instant) pairs that the ranges contain."""
    frame = pl.DataFrame(ROWS, schema={"TS": pl.Int64, "a": pl.Int32}, orient="row").with_columns(
        pl.lit(None, pl.Datetime("us")).alias("at")
    )
    instants: set[tuple[int, int]] = set()
    for now_range in ranges(condition, points):
        lower, upper = values(frame, now_range.lower), values(frame, now_range.upper)
        true = values(frame, now_range.condition)
        for row in range(len(ROWS)):
            if now_range.condition is not None and true[row] is not True:
                continue
            if (now_range.lower is not None and lower[row] is None) or (
                now_range.upper is not None and upper[row] is None
            ):
                continue
            instants |= {
                (row, now)
                for now in INSTANTS
                if (now_range.lower is None or lower[row] <= now) and (now_range.upper is None or now < upper[row])
            }
    return instants


def values(frame: pl.DataFrame, expression: Expression | None) -> list[object]:
    if expression is None:
        return [None] * frame.height
    values, faults = evaluate(frame, {"value": expression})
    assert faults.null_count() == frame.height
    return values["value"].to_list()


def by_duckdb(condition: str, points: Periodic | None = None) -> set[tuple[int, int]]:
    """The same pairs, computed by DuckDB from the text for every row and instant."""
    rows = [(number, ts, a, now, last(now, points)) for number, (ts, a) in enumerate(ROWS) for now in INSTANTS]
    names = {"row": pl.Int64, "TS": pl.Int64, "a": pl.Int32, "tau": pl.Int64, "Now": pl.Int64}
    sent = pl.DataFrame(rows, orient="row", schema=names)
    with duck_engine.connection() as database:
        database.register("R", sent.to_arrow())
        return set(database.execute(f"SELECT row, tau FROM R WHERE {condition}").fetchall())


def last(now: int, points: Periodic | None) -> int:
    while points is not None and now % points.period not in points.residues:
        now -= 1
    return now


CONDITIONS = [
    "Now - 5 < R.TS AND R.TS <= Now",
    "R.TS BETWEEN Now - 4 AND Now",
    "R.TS NOT BETWEEN Now - 4 AND Now",
    "NOT (R.TS BETWEEN Now - 4 AND Now)",
    "Now > TS + 3",
    "Now = TS",
    "Now <> TS",
    "NOT (Now = TS)",
    "2 * Now > TS",
    "2 * Now >= TS",
    "3 * Now < TS + 1",
    "3 * Now <= TS + 1",
    "3 * Now = TS",
    "NOT (3 * Now = TS)",
    "-3 * Now < TS",
    "TS - 4 * Now >= a",
    "Now + Now - 3 > TS",
    "5 - Now <= TS + a",
    "-(Now - 2) > TS - 2 * a",
    "Now BETWEEN TS AND TS + 6",
    "Now >= TS AND Now >= a AND Now < 20",
    "(Now > TS OR a > 0) AND Now < 5",
    "NOT (Now > TS OR a > 0)",
    "NOT (Now > TS AND a > 0)",
    "(Now < TS OR Now > TS + 4) AND (a = 2 OR Now > 10)",
    "a IS NULL AND Now > 3 OR NOT (a = 2) AND Now < TS",
    "Now > 3 AND 10 > Now",
    "7 * Now BETWEEN -3 * TS AND 2 * a + 30",
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("points", [None, Periodic(2), Periodic(5, (1, 3))], ids=str)
def test_ranges_are_the_predicate_at_every_instant(condition: str, points: Periodic | None) -> None:
    assert holds(condition, points) == by_duckdb(condition, points)


OPERATORS = ["<", "<=", ">", ">=", "=", "<>"]
NUMBER = some.integers(-6, 6)
TERM = some.one_of(NUMBER.map(lambda n: f"({n})"), some.sampled_from(["TS", "a", "(TS - a)"]))
LINEAR = some.builds(lambda slope, term: f"({slope}) * Now + {term}", NUMBER.filter(bool), TERM)
ATOM = some.one_of(
    some.builds(lambda left, op, right: f"{left} {op} {right}", LINEAR, some.sampled_from(OPERATORS), TERM),
    some.builds(lambda low, value, high: f"{value} BETWEEN {low} AND {high}", TERM, LINEAR, TERM),
    some.sampled_from(["a > 0", "TS IS NULL", "a = 2"]),
)
CONDITION = some.recursive(
    ATOM,
    lambda inner: some.one_of(
        some.builds(lambda operand: f"NOT ({operand})", inner),
        some.builds(lambda left, word, two: f"({left}) {word} ({two})", inner, some.sampled_from(["AND", "OR"]), inner),
    ),
    max_leaves=4,
)


@settings(max_examples=examples(50), deadline=None)
@given(CONDITION.filter(lambda text: "Now" in text))
def test_any_now_predicate_equals_duckdb(condition: str) -> None:
    assert holds(condition) == by_duckdb(condition)


@pytest.mark.parametrize(
    ("condition", "lower", "upper"),
    [
        ("Now - 5 < R.TS AND R.TS <= Now", "TS", "TS + 5"),
        ("Now - INTERVAL '5' SECOND < R.TS", None, "TS + 5000"),
        ("Now > R.TS + INTERVAL '1' MINUTE", "TS + 60000 + 1", None),
        ("at <= Now", "(epoch_us(at) + 999 - ((epoch_us(at) + 999) % 1000 + 1000) % 1000) / 1000", None),
    ],
)
def test_bounds(condition: str, lower: str | None, upper: str | None) -> None:
    (now_range,) = ranges(condition)
    assert [None if end is None else to_sql(end).lower() for end in (now_range.lower, now_range.upper)] == [
        None if end is None else end.lower() for end in (lower, upper)
    ]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("Now * Now > 3", 'line 1, column 23: "Now \\* Now" is not linear in Now; have: Now \\+ e'),
        ("TS > 1 AND Now % 2 = 0", 'line 1, column 34: "Now % 2" is not linear'),
        ("TS * Now > 3", '"TS \\* Now" is not linear'),
        ("Now / 2 > TS", '"Now / 2" is not linear'),
        ("abs(Now) > TS", '"ABS\\(Now\\)" is not linear'),
        ("Now - Now > TS", "Now cancels out"),
        ("Now IS NULL", "is not a comparison with Now"),
        ("Now IN (1, 2)", "is not a comparison with Now"),
        ("Now > 'x'", "Now is compared with instants"),
        ("Now - INTERVAL '1' MONTH < TS", "months and years have no fixed length"),
    ],
)
def test_refusals(condition: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        ranges(condition)
