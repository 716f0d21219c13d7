"""Plans to which each rule applies."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from dsms.model import logical
from operators.aggregates.aggregate import Aggregate
from operators.core.sort_key import SortKey
from operators.expressions import Literal, call
from operators.ranking.window_call import WindowCall
from operators.sync.sync_points import Periodic
from operators.windows.now_filter import NowRange
from tests.dsms.planner.optimizer.rules.rule_harness import EVENTS, KEYED, big, col, over, prefixed, project, where

EVERY2, EVERY4 = Periodic(2), Periodic(4, (1,))
COUNT = Aggregate("n", "count", (), pa.int64(), nullable=False)
SUM = Aggregate("s", "sum", ("a",), pa.int64())
RIGHT, RIGHT_EVENTS, THIRD = prefixed(KEYED, "r_"), prefixed(EVENTS, "r_"), prefixed(EVENTS, "q_")
JOIN = logical.Join(KEYED, RIGHT, (("id", "r_id"),))
EVENTS_JOIN = logical.Join(EVENTS, RIGHT, (("id", "r_id"),))
CROSS = logical.Join(EVENTS, RIGHT, ())
SAME_A = call("equal", col(JOIN, "a"), col(JOIN, "r_a"))
BOTH = call("less", col(JOIN, "a"), col(JOIN, "r_a"))
GROUP = logical.GroupBy(project(KEYED, "a", "b"), ("b",), (COUNT, SUM))
TOP = logical.TopK(KEYED, ("b",), (SortKey("a", True),), 1)
ASSIGN = logical.Assign(EVENTS, "hop", "TS", 4, 2)
WINDOW, NOW = logical.TimeWindow(EVENTS, 3), logical.TimeWindow(EVENTS, 0)
ROWS = logical.RowWindow(EVENTS, 2, ("b",))
SESSION = logical.Session(KEYED, "a", 1, ("b",))
UNION = logical.Union((KEYED, EVENTS))
RECENT = NowRange(lower=col(KEYED, "TS"), upper=call("add", col(KEYED, "a"), big(6)))
SINCE = NowRange(lower=col(KEYED, "TS"), upper=col(KEYED, "a"))
ONCE = NowRange(lower=col(KEYED, "TS"))
POINTS = project(where(EVENTS, over(EVENTS, "a")), "TS")
TAGS = logical.Unnest(
    project(KEYED, "a", tags=call("array", col(KEYED, "b"), Literal("z", pa.string()))), "tags", "tag"
)
NUMBERED = WindowCall("number", "row_number", (), pa.int64(), ("b",), (SortKey("a"),))
RUNNING_SUM = WindowCall("s", "sum", ("a",), pa.int64(), ("b",), (SortKey("TS"),), "rows", -1)
NUMBERS = logical.WindowFunctions(KEYED, (NUMBERED,))
RATIO = call("divide", big(6), col(KEYED, "a"))
RATIOS = project(KEYED, "id", r=RATIO)
SEMI = logical.SemiJoin(KEYED, project(EVENTS, "a"), (("a", "a"),))
THREE = logical.Join(
    logical.Join(EVENTS, THIRD, (), over(THIRD, "q_a", "less")), RIGHT, (("id", "r_id"), ("q_id", "r_id"))
)
COUNTED = logical.GroupBy(ASSIGN, ("b", "window_end"), (COUNT,))
OF_WINDOWS = project(COUNTED, num=col(COUNTED, "n"), to=col(COUNTED, "window_end"))
NUM = col(OF_WINDOWS, "num")


def extreme(below: logical.Node, function: str, value: str, *keys: str) -> logical.GroupBy:
    made = Aggregate(f"{function}_{value}", function, (value,), col(below, value).type)
    return logical.GroupBy(below, keys, (made,))


_MOST = extreme(OF_WINDOWS, "max", "num", "to")
MOST = project(_MOST, m_to=col(_MOST, "to"), most=col(_MOST, "max_num"))
_MOST_A = extreme(KEYED, "max", "a", "b")
MOST_A = project(_MOST_A, m_b=col(_MOST_A, "b"), most=col(_MOST_A, "max_a"))
_LEAST = extreme(project(KEYED, "a"), "min", "a")
LEAST = project(_LEAST, least=col(_LEAST, "min_a"))
AT_LEAST = call("less_or_equal", col(KEYED, "a"), col(LEAST, "least"))
_LEAST_OF_B = extreme(project(KEYED, "a", l_b=col(KEYED, "b")), "min", "a", "l_b")
LEAST_OF_B = project(_LEAST_OF_B, "l_b", least=col(_LEAST_OF_B, "min_a"))
LEFT_OF_B = logical.Join(KEYED, LEAST_OF_B, (("b", "l_b"),), outer="left")
ASOF = logical.AsofJoin(KEYED, RIGHT, (("b", "r_b"),), "a", "r_a")
COUNTS = logical.GroupBy(project(KEYED, "b"), ("b",), (COUNT,))
COUNTS_TOO = project(COUNTS, m=col(COUNTS, "n"))


def _outer(kind: str, left: bool, *more: str) -> logical.Node:
    join = logical.Join(KEYED, RIGHT, (("a", "r_a"),), outer=kind)  # type: ignore[arg-type]
    return where(join, over(join, "id" if left else "r_id"), over(join, "r_id" if left else "id", "less", 2))


CASES: dict[str, list[logical.Node]] = {
    "bound_group": [
        logical.GroupBy(
            project(ASSIGN, "a", "window_start", "window_end"), ("window_start", "window_end"), (COUNT, SUM)
        ),
        logical.GroupBy(
            project(where(ASSIGN, over(ASSIGN, "a")), "b", to=col(ASSIGN, "window_end")), ("b", "to"), (COUNT,)
        ),
        logical.GroupBy(logical.Assign(EVENTS, "cumulate", "TS", 6, 3), ("window_end",), (SUM,)),
    ],
    "distinct_of_keyed": [logical.Distinct(where(KEYED, over(KEYED, "a")))],
    "equality_to_key": [
        where(CROSS, call("equal", col(CROSS, "r_a"), col(CROSS, "a")), over(CROSS, "id")),
        logical.Join(KEYED, RIGHT, (("id", "r_id"),), call("and", SAME_A, BOTH)),
    ],
    "extreme_to_rank": [
        logical.Join(
            project(COUNTED, "b", num=col(COUNTED, "n"), to=col(COUNTED, "window_end")),
            MOST,
            (("to", "m_to"),),
            call("greater_or_equal", NUM, col(MOST, "most")),
        ),
        logical.Join(MOST_A, KEYED, (("most", "a"), ("m_b", "b"))),
        logical.Join(KEYED, LEAST, (), call("and", over(KEYED, "id", "less", 2), AT_LEAST)),
        where(LEFT_OF_B, call("equal", col(LEFT_OF_B, "least"), col(KEYED, "a")), over(KEYED, "id", "less", 2)),
        logical.SemiJoin(COUNTS, COUNTS_TOO, (), call("less", col(COUNTS, "n"), col(COUNTS_TOO, "m")), anti=True),
        logical.SemiJoin(
            EVENTS,
            RIGHT_EVENTS,
            (("TS", "r_TS"),),
            call("less", col(RIGHT_EVENTS, "r_id"), col(EVENTS, "id")),
            anti=True,
        ),
    ],
    "filter_through_asof_join": [
        where(ASOF, over(ASOF, "id"), over(ASOF, "r_id", "less", 2)),
        where(replace(ASOF, outer=True, comparison="less"), over(ASOF, "a"), call("is_null", col(RIGHT, "r_a"))),
        where(logical.AsofJoin(EVENTS, RIGHT_EVENTS, (), "TS", "r_TS"), over(EVENTS, "a")),
    ],
    "filter_through_assign": [where(ASSIGN, over(ASSIGN, "a"), over(ASSIGN, "window_end", "greater", 6))],
    "filter_through_distinct": [where(logical.Distinct(project(KEYED, "a", "b")), over(KEYED, "a"))],
    "filter_through_group_by": [
        where(GROUP, over(GROUP, "n", "greater", 1), call("equal", col(GROUP, "b"), col(GROUP, "b")))
    ],
    "filter_through_join": [
        where(JOIN, over(JOIN, "a"), over(JOIN, "r_a", "less", 2), BOTH),
        _outer("left", True),
        _outer("right", False),
    ],
    "filter_through_now_filter": [where(logical.NowFilter(KEYED, (ONCE,)), over(KEYED, "a"))],
    "filter_through_partitions": [
        where(TOP, call("is_not_null", col(TOP, "b")), over(TOP, "a")),
        where(ROWS, call("is_not_null", col(ROWS, "b")), over(ROWS, "a")),
        where(SESSION, call("is_not_null", col(SESSION, "b"))),
        where(NUMBERS, call("is_not_null", col(KEYED, "b")), over(NUMBERS, "number", "less", 2)),
        where(logical.WindowFunctions(EVENTS, (NUMBERED, RUNNING_SUM)), call("is_not_null", col(EVENTS, "b"))),
    ],
    "filter_through_project": [
        where(RATIOS, over(RATIOS, "r", "greater", 2), over(RATIOS, "id")),
        where(project(KEYED, x=col(KEYED, "a")), over(project(KEYED, x=col(KEYED, "a")), "x")),
        where(project(KEYED, "id", "a"), call("greater", RATIO, big(2))),  # p fails on rows on which f does not fail
    ],
    "filter_through_semi_join": [where(SEMI, over(SEMI, "a"))],
    "filter_through_set_operation": [
        where(logical.SetOperation(project(KEYED, "a"), project(EVENTS, "a"), kind), over(KEYED, "a"))  # type: ignore[arg-type]
        for kind in ("except", "except_all", "intersect", "intersect_all")
    ],
    "filter_through_time_window": [
        where(WINDOW, over(WINDOW, "a")),
        where(logical.TimeWindow(EVENTS, 2, 4), over(WINDOW, "a")),
    ],
    "filter_through_union": [where(UNION, over(UNION, "a"), over(UNION, "id", "less", 2))],
    "filter_through_unnest": [where(TAGS, over(TAGS, "a"), call("is_not_null", col(TAGS, "tag")))],
    "fold_constants": [
        where(KEYED, call("greater", col(KEYED, "a"), call("subtract", big(5), big(3)))),
        where(
            KEYED,
            call("or", over(KEYED, "id"), call("greater", call("divide", call("negate", big(1)), big(0)), big(2))),
        ),
        project(KEYED, "id", x=call("add", col(KEYED, "a"), call("negate", big(2)))),
        logical.Join(KEYED, RIGHT, (("id", "r_id"),), call("less", col(KEYED, "a"), call("multiply", big(2), big(2)))),
    ],
    "join_order": [
        THREE,
        logical.Join(
            logical.Join(EVENTS, THIRD, (("id", "q_id"),), over(EVENTS, "a")), prefixed(NOW, "w_"), (("a", "w_a"),)
        ),
    ],
    "merge_filters": [
        where(where(KEYED, over(KEYED, "a")), over(KEYED, "id")),
        where(where(KEYED, over(KEYED, "a", "not_equal")), call("greater", RATIO, big(2))),
    ],
    "merge_projects": [
        project(RATIOS, "r", y=call("is_null", col(EVENTS, "id"))),
        project(project(KEYED, "a", "id"), "id", "a"),
    ],
    "now_filter_below": [
        logical.NowFilter(UNION, (RECENT,)),
        logical.NowFilter(project(KEYED, "a", "TS"), (RECENT,)),
        logical.NowFilter(EVENTS_JOIN, (ONCE,)),
        logical.NowFilter(JOIN, (SINCE,)),
    ],
    "order_conjuncts": [
        where(KEYED, over(KEYED, "id"), call("less", big(0), col(KEYED, "a"))),
        logical.Join(KEYED, RIGHT, (("id", "r_id"),), call("and", SAME_A, BOTH)),
    ],
    "project_through_row_window": [
        project(ROWS, "b", x=col(ROWS, "id")),
        project(logical.RowWindow(EVENTS, 2, slide=2), "a"),
    ],
    "project_through_time_window": [
        project(WINDOW, "a"),
        project(logical.TimeWindow(EVENTS, 1, 3), x=col(EVENTS, "b")),
    ],
    "prune_columns": [
        project(JOIN, "a", "r_b"),
        project(JOIN, "id", "r_b"),
        project(logical.Join(project(KEYED, "id", "b", r=RATIO), RIGHT_EVENTS, (("id", "r_id"),)), "r_a"),
        logical.GroupBy(EVENTS, (), (COUNT,)),
        project(SEMI, "id"),
        project(UNION, "b"),
        project(logical.TopK(EVENTS, (), (SortKey("a"),), 2), "id"),
        project(logical.Sync(JOIN, EVERY2), "a"),
        project(ASOF, "id", "r_a"),
        project(logical.AsofJoin(EVENTS, RIGHT, (("id", "r_id"),), "TS", "r_TS", outer=True), "id", "r_b"),
    ],
    "remove_identity_project": [project(KEYED, "id", "a", "b", "TS")],
    "remove_unbounded_window": [where(logical.TimeWindow(EVENTS, None), over(EVENTS, "a"))],
    "residual_through_join": [
        logical.Join(KEYED, RIGHT, (("id", "r_id"),), call("and", over(JOIN, "a"), over(JOIN, "r_a"), BOTH)),
        logical.Join(KEYED, RIGHT, (("a", "r_a"),), call("and", over(JOIN, "id"), over(JOIN, "r_id")), "left"),
        logical.Join(KEYED, RIGHT, (("a", "r_a"),), call("and", over(JOIN, "id"), over(JOIN, "r_id")), "right"),
        logical.SemiJoin(KEYED, RIGHT, (("a", "r_a"),), call("and", over(JOIN, "id"), over(JOIN, "r_id")), anti=True),
        logical.SemiJoin(KEYED, RIGHT, (("a", "r_a"),), call("and", over(JOIN, "id"), over(JOIN, "r_id"))),
    ],
    "semi_join_of_distinct": [
        logical.SemiJoin(KEYED, logical.Distinct(project(EVENTS, "a")), (("a", "a"),), anti=anti)
        for anti in (False, True)
    ],
    "semi_join_to_join": [logical.SemiJoin(EVENTS, RIGHT, (("id", "r_id"),), BOTH)],
    "stream_of_now_window": [logical.ToStream(project(where(NOW, over(NOW, "a")), "a"), "rstream", Periodic(1))],
    "stream_of_stream": [logical.ToStream(project(where(EVENTS, over(EVENTS, "a")), "a"), "istream")],
    "sync_above": [
        where(logical.Sync(KEYED, EVERY2), over(KEYED, "a")),
        project(logical.Sync(KEYED, POINTS), "id", "a"),
        logical.Union((logical.Sync(KEYED, EVERY4), logical.Sync(EVENTS, EVERY4))),
        logical.Union((logical.Sync(KEYED, POINTS), logical.Sync(EVENTS, POINTS))),
    ],
    "sync_below": [
        logical.Sync(points=points, input=below)
        for points in (EVERY4, POINTS)
        for below in (project(where(GROUP, over(GROUP, "n")), "b", "s"), logical.Distinct(project(KEYED, "a")), JOIN)
    ],
    "sync_of_sync": [
        logical.Sync(logical.Sync(KEYED, EVERY2), Periodic(4)),
        logical.Sync(logical.Sync(KEYED, POINTS), POINTS),
    ],
    "union_of_windows": [logical.Union((WINDOW, logical.TimeWindow(where(EVENTS, over(EVENTS, "a")), 3)))],
}
