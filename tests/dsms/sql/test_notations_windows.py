"""Windows in FROM: the plan of each notation, and the errors of wrong windows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dsms.model import logical
from dsms.model.logical import RowWindow, TimeWindow
from dsms.model.properties import walk
from dsms.model.schema import schema
from operators.core.errors import SqlError
from operators.expressions import Column, Literal, call, to_sql
from operators.sync.sync_points import Periodic
from tests.support.plan_parts import item, plan, register, stream

S = stream()
MINUTE = 60_000


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[Range 5 Minutes]", TimeWindow(S, 5 * MINUTE)),
        ("[range 5 minutes slide 1 minute]", TimeWindow(S, 5 * MINUTE, MINUTE)),
        ("[Range 5]", TimeWindow(S, 5)),
        ("[Range 0]", TimeWindow(S, 0)),
        ("[Range 5 Preceding]", TimeWindow(S, 5)),
        ("[Range 1 Day Preceding Slide 1 Hour]", TimeWindow(S, 1440 * MINUTE, 60 * MINUTE)),
        ("[Range INTERVAL '1' MINUTE]", TimeWindow(S, MINUTE)),
        ("[Range 1.5 Seconds]", TimeWindow(S, 1500)),
        ("[Range Unbounded]", TimeWindow(S, None)),
        ("[RANGE UNBOUNDED PRECEDING]", TimeWindow(S, None)),
        ("[Now]", TimeWindow(S, 0)),
        ("[Rows 10]", RowWindow(S, 10)),
        ("[Rows 10 Preceding]", RowWindow(S, 10)),
        ("[Rows 10 Slide 5]", RowWindow(S, 10, (), 5)),
        ("[Rows Unbounded]", TimeWindow(S, None)),
        ("[Partition By a, S.b Rows 3]", RowWindow(S, 3, ("a", "b"))),
        ("[Partition By a Range 5]", TimeWindow(S, 5)),
        ("WINDOW(RANGE 10 MINUTES)", TimeWindow(S, 10 * MINUTE - 1)),
        ("window(range 10)", TimeWindow(S, 9)),
        ("WINDOW(RANGE UNBOUNDED)", TimeWindow(S, None)),
        ("WINDOW(RANGE 50 SLIDE 10)", logical.Sync(TimeWindow(S, 49), Periodic(10, (9,)))),
        ("WINDOW(ROWS 10)", RowWindow(S, 10)),
        ("WINDOW(ROWS 10 SLIDE 2)", RowWindow(S, 10, (), 2)),
        ("WINDOW(PARTITION BY a ROWS 10)", RowWindow(S, 10, ("a",))),
        ("WINDOW(PARTITION BY a RANGE 10)", TimeWindow(S, 9)),
        ("WINDOW(RANGE 1 HOUR) GRANULARITY(1 MINUTE)", logical.Sync(TimeWindow(S, 60 * MINUTE - 1), Periodic(MINUTE))),
        ("window(rows 10) granularity (5)", logical.Sync(RowWindow(S, 10), Periodic(5))),
    ],
)
@pytest.mark.parametrize("table", ["S {}", "R(S) {}", "ℜ(S) {}", "S {} X", "S {} AS X", "S X {}", "R(S) AS X {}"])
def test_a_window_on_a_stream(table: str, window: str, expected: logical.Node) -> None:
    named_x = " X" in table
    window = window.replace("S.b", "X.b" if named_x else "S.b")
    assert item(table.format(window)) == expected


def test_window_bracket_may_follow_the_name_without_space() -> None:
    assert item("S[Now]") == TimeWindow(S, 0)


def test_where_inside_the_bracket_filters_before_the_window() -> None:
    node = item("S [Partition By a Rows 10 Where b = 'Long Distance'] WHERE c > 1")
    before = logical.Filter(S, call("equal", Column("b", pa.string()), Literal("Long Distance", pa.string())))
    assert isinstance(node, logical.Filter)
    assert to_sql(node.predicate) == "c > 1"
    assert node.input == RowWindow(before, 10, ("a",))


def test_rows_within_a_range_end_by_age() -> None:
    node = item("S [Partition By a Rows 3 Range 10 Minutes]")
    assert isinstance(node, logical.NowFilter)
    (only,) = node.ranges
    assert node.input == RowWindow(S, 3, ("a",))
    assert (only.lower, only.condition, only.upper and to_sql(only.upper)) == (None, None, "TS + 600001")


def test_rows_within_a_range_over_a_query() -> None:
    node = item("(SELECT id FROM S) [Rows 3 Range 10] x")
    assert isinstance(node, logical.Project)
    assert isinstance(node.input, logical.NowFilter)
    assert isinstance(node.input.input, RowWindow)
    assert isinstance(node.input.input.input, logical.Restamp)
    assert schema(node).names == ["id"]


def test_a_window_on_a_relation_is_on_what_enters_it() -> None:
    assert item("D [Rows 3]") == RowWindow(logical.ToStream(stream("D"), "istream"), 3)
    with pytest.raises(SqlError, match="rows can leave the subquery, so CQL defines no default stream for its window"):
        item("(SELECT a AS id, COUNT(*) AS n FROM S GROUP BY a) [Range 5] g")
    union = item("((SELECT id FROM S) UNION (SELECT id FROM S2)) [Partition By id Rows 1] AS P")
    assert isinstance(union, RowWindow)
    assert isinstance(union.input, logical.Distinct), "a monotonic relation is a stream"


def test_windows_in_joins_and_subqueries() -> None:
    bound_plan = plan(
        "SELECT STREAMED x.id FROM S [Range 5] x JOIN S2 [Rows 2] AS y ON x.id = y.id LEFT JOIN D ON D.id = x.id"
    )
    kinds = [type(below).__name__ for below in walk(bound_plan)]
    assert (kinds.count("TimeWindow"), kinds.count("RowWindow"), kinds.count("Join")) == (1, 1, 2)
    nested = plan("SELECT STREAMED id FROM D WHERE a IN (SELECT a FROM S [Range 5] s WHERE s.c = D.c)")
    assert [below for below in walk(nested) if isinstance(below, TimeWindow)] == [TimeWindow(S, 5)]


@pytest.mark.parametrize(
    "joined",
    [
        "S [Range 5] x JOIN D y ON x.id = y.id",
        "S x [Range 5] LEFT JOIN S2 [Rows 2] AS y ON x.id = y.id",
        "R[Sync2](S) x FULL JOIN D y ON x.id = y.id",
        "TUMBLE(TABLE S, DESCRIPTOR(c), 10) x CROSS JOIN D y",
        "D y JOIN Istream(D) x ON x.id = y.id",
    ],
)
def test_parentheses_around_joins_of_windows_mean_nothing(joined: str) -> None:
    assert plan(f"SELECT STREAMED x.id FROM ({joined})") == plan(f"SELECT STREAMED x.id FROM {joined}")
    nested = plan(f"SELECT STREAMED x.id FROM D z JOIN ({joined}) ON x.id = z.id")
    assert isinstance(next(below for below in walk(nested) if isinstance(below, logical.Join)).right, logical.Node)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("TUMBLE(TABLE S, DESCRIPTOR(at), INTERVAL '10' SECOND)", logical.Assign(S, "hop", "at", 10_000, 10_000)),
        ("TUMBLE(S, at, INTERVAL '10' SECOND)", logical.Assign(S, "hop", "at", 10_000, 10_000)),
        ("HOP(S, c, 5, 10) AS h", logical.Assign(S, "hop", "c", 10, 5)),
        ("HOP(S, c, 5, 10, 3) h", logical.Assign(S, "hop", "c", 10, 5, 3)),
        ("TABLE(TUMBLE(TABLE S, DESCRIPTOR(c), 10)) AS t", logical.Assign(S, "hop", "c", 10, 10)),
        (
            "tumble(table S, descriptor(day), interval '1' day, interval '1' hour) t",
            logical.Assign(S, "hop", "day", 86_400_000, 86_400_000, 3_600_000),
        ),
        ("TUMBLE(S, DESCRIPTOR(TS), 10, 3)", logical.Assign(S, "hop", "TS", 10, 10, 3)),
        ("HOP(TABLE S, DESCRIPTOR(c), 5, 10)", logical.Assign(S, "hop", "c", 10, 5)),
        (
            "HOP(DATA => TABLE S, TIMECOL => DESCRIPTOR(c), SIZE => 10, SLIDE => 5)",
            logical.Assign(S, "hop", "c", 10, 5),
        ),
        ("CUMULATE(TABLE S, DESCRIPTOR(c), 5, 10)", logical.Assign(S, "cumulate", "c", 10, 5)),
        ("SESSION(TABLE S, DESCRIPTOR(c), 5)", logical.Session(S, "c", 5)),
        (
            "SESSION(TABLE S PARTITION BY a, DESCRIPTOR(at), INTERVAL '5' MINUTE)",
            logical.Session(S, "at", 300_000, ("a",)),
        ),
        ("SESSION(TABLE S PARTITION BY (a, b), DESCRIPTOR(c), 5)", logical.Session(S, "c", 5, ("a", "b"))),
        ("TUMBLE(TABLE D, DESCRIPTOR(c), 10)", logical.Assign(stream("D"), "hop", "c", 10, 10)),
    ],
)
def test_table_functions(function: str, expected: logical.Node) -> None:
    assert item(function) == expected


def test_window_bounds_are_the_last_columns() -> None:
    fields = schema(plan("SELECT STREAMED * FROM TUMBLE(TABLE S, DESCRIPTOR(at), INTERVAL '1' HOUR) x"))
    assert fields.names == ["id", "a", "b", "c", "at", "day", "window_start", "window_end"]
    assert fields.field("window_end") == pa.field("window_end", pa.timestamp("us"), nullable=False)
    named = schema(plan("SELECT STREAMED x.id, x.window_start AS w FROM TUMBLE(TABLE S, DESCRIPTOR(c), 5) x"))
    assert (named.names, named.field("w").type) == (["id", "w"], pa.int64())


def test_grouping_by_windows() -> None:
    bound_plan = plan(
        "SELECT STREAMED window_end, a, COUNT(*) AS n FROM HOP(TABLE S, DESCRIPTOR(c), 5, 10) GROUP BY window_end, a"
    )
    assert schema(bound_plan).names == ["window_end", "a", "n"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("S [Range 5 Fortnights]", 'line 1, column 34: "Fortnights" is not a unit of fixed length'),
        ("S [Range 1 Month]", '"Month" is not a unit of fixed length; have: MILLISECOND'),
        ("S [Range INTERVAL '1' MONTH]", "months and years have no fixed length"),
        ("S [Range 1.5]", '"1.5" is not a whole number'),
        ("S [Rows 0]", "ROWS must be positive"),
        ("S [Rows 5 Minutes]", "ROWS takes a number of rows without a unit"),
        ("S [Rows 5 Slide 1 Minute]", "SLIDE takes a number of rows"),
        ("S [Range 5 Slide 0]", "SLIDE must be positive"),
        ("S WINDOW(RANGE 0)", "RANGE must be positive"),
        ("S [Rows Unbounded Slide 2]", "ROWS UNBOUNDED cannot have a SLIDE"),
        ("S [Partition By zz Rows 5]", 'column "zz" not found; have: S.id'),
        ("S [Partition By a + 1 Rows 5]", "expected a window: RANGE, ROWS"),
        ("S [Rows 5 Where a]", "WHERE of a window needs a BOOLEAN, not INTEGER"),
        ("S [Foo]", 'line 1, column 28: expected a window: RANGE, ROWS, NOW or PARTITION BY at "Foo"'),
        ("S [Range 5", "expected \\] at"),
        ("S [Range]", "expected a number"),
        ("S WINDOW(RANGE 5]", "expected \\)"),
        ("TUMBLE(TABLE S, DESCRIPTOR(at), 10)", "the length of a window over a TIMESTAMP must be an INTERVAL"),
        ("TUMBLE(TABLE S, DESCRIPTOR(b), 10)", "DESCRIPTOR needs a column of type BIGINT, TIMESTAMP or DATE, not"),
        ("TUMBLE(TABLE S, DESCRIPTOR(c))", 'column 25: expected 1 length\\(s\\) and an optional offset in at "TUMBLE"'),
        ("TUMBLE(TABLE S, 5, c)", "expected DESCRIPTOR\\(column\\) or a column"),
        ("HOP(TABLE S, DESCRIPTOR(c), 5)", "expected 2 length"),
        ("HOP(TABLE S, DESCRIPTOR(c), 0, 5)", "the length must be positive"),
        ("CUMULATE(TABLE S, DESCRIPTOR(c), 3, 10)", "the size of CUMULATE must be a multiple of its step"),
        ("SESSION(TABLE S, DESCRIPTOR(c), 5, 1)", "SESSION takes no offset"),
        ("TUMBLE(TABLE S, DESCRIPTOR(c), 10, 3, 4)", '"OFFSET" of TUMBLE is given twice'),
        ("HOP(TABLE S, DESCRIPTOR(c), 5, 10, 3, 4)", '"OFFSET" of HOP is given twice'),
        ("CUMULATE(TABLE S, DESCRIPTOR(c), STEP => 5, SLIDE => 10)", '"SLIDE" of CUMULATE is given twice'),
        ("TUMBLE(TABLE S PARTITION BY a, DESCRIPTOR(c), 5)", "TUMBLE takes no PARTITION BY"),
        ("TUMBLE((SELECT c AS id, c AS window_end FROM S), DESCRIPTOR(id), 5)", 'already has a column "window_end"'),
        ("Nope [Now]", '"Nope" not found'),
    ],
)
def test_refusals(table: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        register(f"SELECT STREAMED id FROM {table}")


@pytest.mark.parametrize(
    ("item_text", "message"),
    [
        ("S WINDOW(RANGE 5) foo(5 SECONDS)", r'"foo\(…\)" is not allowed after an item of FROM'),
        ("S [Range 5] foo(5)", r'"foo\(…\)" is not allowed after an item of FROM'),
        ("S AS x(5 SECONDS)", "is not allowed after AS"),
        ("S [Range 5] GRANULARITY(5 SECONDS)", r"GRANULARITY can only follow WINDOW\(…\), once"),
        ("S GRANULARITY(5)", r"GRANULARITY can only follow WINDOW\(…\), once"),
        ("S WINDOW(RANGE 5) GRANULARITY(5) GRANULARITY(5)", r"GRANULARITY can only follow WINDOW\(…\), once"),
        ("S WINDOW(RANGE 5) GRANULARITY(COARSEST 9, FINEST 3)", "a granularity between two bounds is not supported"),
        ("S WINDOW(RANGE 5) GRANULARITY(0)", "GRANULARITY must be positive"),
        ("S WINDOW(RANGE 5) GRANULARITY(5 APPLES)", "APPLES"),
    ],
)
def test_unknown_text_after_a_window_is_refused(item_text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        item(item_text)


def test_granules_may_only_become_coarser() -> None:
    below = "(SELECT Istream(id, a) FROM S WINDOW(RANGE 1) GRANULARITY(4)) AS q WINDOW(RANGE 1) GRANULARITY({})"
    item(below.format(8))
    with pytest.raises(SqlError, match="the granularity 6 is not a multiple of 4"):
        item(below.format(6))
