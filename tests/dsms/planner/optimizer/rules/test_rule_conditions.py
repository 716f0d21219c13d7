"""Plans to which a rule must not apply, and histories for which the rewritten plan would have other results.

The plans are built by hand, not bound from SQL: each has at its top the node that the rule refuses, where the binder
would put a projection; and a wrong rewrite is the plan of no SELECT.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import walk
from dsms.planner.optimizer.optimize import optimize
from operators.aggregates.aggregate import Aggregate
from operators.core.sort_key import SortKey
from operators.expressions import Call, Literal, call, cast, columns
from operators.sync.sync_points import Periodic
from operators.windows.now_filter import NowRange
from tests.dsms.planner.optimizer.rules.rule_cases import BY_NAME
from tests.dsms.planner.optimizer.rules.rule_harness import (
    EVENTS,
    KEYED,
    History,
    big,
    col,
    over,
    prefixed,
    project,
    published,
    where,
)
from tests.dsms.planner.optimizer.rules.rule_plans import (
    ASSIGN,
    BOTH,
    COUNT,
    EVERY2,
    EVERY4,
    GROUP,
    JOIN,
    LEFT_OF_B,
    MOST_A,
    NOW,
    NUMBERED,
    NUMBERS,
    POINTS,
    RATIO,
    RATIOS,
    RIGHT,
    ROWS,
    SUM,
    THIRD,
    TOP,
    WINDOW,
)

FLOATS = project(KEYED, "id", "b", f=cast(col(KEYED, "a"), pa.float64()))
FLOAT_JOIN = logical.Join(FLOATS, prefixed(FLOATS, "r_"), ())
FLOAT_SUM = Aggregate("s", "sum", ("f",), pa.float64())
NULL_JOIN = logical.Join(KEYED, RIGHT, (("b", "r_b"),), nulls_equal=True)
LEFT = logical.Join(KEYED, RIGHT, (("a", "r_a"),), outer="left")
IN_FAULT = call("greater", RATIO, big(2))
RATIO_ALONE = logical.Join(KEYED, RIGHT, (("id", "r_id"),), IN_FAULT)
ANTI = logical.SemiJoin(KEYED, RIGHT, (("a", "r_a"),), over(JOIN, "id"), anti=True)
MIN = project(KEYED, "b", "a")
VALUES = logical.Values(pa.schema([("x", pa.int64())]), ((1,),))
ONCE = NowRange(lower=col(KEYED, "TS"))
OTHER_SIDE = NowRange(lower=col(KEYED, "TS"), upper=col(JOIN, "r_a"))
A_COLUMN, ID_COLUMN, MOST_COLUMN = col(KEYED, "a"), col(KEYED, "id"), col(MOST_A, "most")
SMALLER = call("less", ID_COLUMN, col(RIGHT, "r_id"))


def most(*made: Aggregate, below: logical.Node = KEYED) -> logical.Node:
    """A grouping by b with the column names of MOST_A."""
    group = logical.GroupBy(below, ("b",), made)
    others = {aggregate.name: col(group, aggregate.name) for aggregate in made[1:]}
    return project(group, m_b=col(group, "b"), most=col(group, made[0].name), **others)


MAX_A = Aggregate("max_a", "max", ("a",), pa.int64())
SOME = most(replace(MAX_A, filter="c"), below=project(KEYED, "a", "b", c=call("is_not_null", ID_COLUMN)))
TWO, AVERAGE = most(MAX_A, COUNT), most(replace(MAX_A, function="first"))
MOST_F = most(Aggregate("max_f", "max", ("f",), pa.float64()), below=FLOATS)


def grouped(below: logical.Node, key: str = "window_end") -> logical.Node:
    return logical.GroupBy(below, (key,), (COUNT,))


def windows(below: logical.Node, column: str = "TS") -> logical.Assign:
    return logical.Assign(below, "hop", column, 4, 4)


REFUSED: list[tuple[str, logical.Node]] = [
    ("bound_group", grouped(windows(KEYED))),
    ("bound_group", grouped(windows(EVENTS, "a"))),
    ("bound_group", grouped(ASSIGN, "window_start")),
    ("bound_group", grouped(windows(WINDOW))),
    ("bound_group", grouped(logical.NowFilter(ASSIGN, (ONCE,)))),
    ("bound_group", grouped(logical.Sync(ASSIGN, EVERY2))),
    ("bound_group", grouped(logical.Distinct(ASSIGN))),
    ("bound_group", grouped(windows(logical.Restamp(project(KEYED, "id"), "v")))),
    ("bound_group", grouped(windows(project(EVENTS, TS=call("add", col(EVENTS, "TS"), big(1)))))),
    ("bound_group", grouped(windows(project(EVENTS, TS=col(EVENTS, "a"))))),
    ("bound_group", grouped(project(ASSIGN, "TS", window_end=col(ASSIGN, "TS")))),
    ("distinct_of_keyed", logical.Distinct(MIN)),
    ("equality_to_key", where(FLOAT_JOIN, call("equal", col(FLOAT_JOIN, "f"), col(FLOAT_JOIN, "r_f")))),
    ("equality_to_key", where(NULL_JOIN, call("equal", col(NULL_JOIN, "a"), col(NULL_JOIN, "r_a")))),
    ("equality_to_key", where(LEFT, call("equal", col(LEFT, "b"), col(LEFT, "r_b")))),
    ("equality_to_key", where(JOIN, BOTH)),
    ("extreme_to_rank", logical.Join(KEYED, MOST_A, (("b", "m_b"),), call("greater", A_COLUMN, MOST_COLUMN))),
    ("extreme_to_rank", logical.Join(KEYED, MOST_A, (("b", "m_b"),), call("less_or_equal", A_COLUMN, MOST_COLUMN))),
    ("extreme_to_rank", logical.Join(KEYED, MOST_A, (("b", "m_b"),))),
    ("extreme_to_rank", logical.Join(KEYED, MOST_A, (("a", "most"),))),
    ("extreme_to_rank", logical.Join(KEYED, MOST_A, (("a", "most"), ("b", "m_b")), nulls_equal=True)),
    ("extreme_to_rank", logical.Join(KEYED, MOST_A, (("a", "most"), ("b", "m_b")), outer="left")),
    ("extreme_to_rank", logical.Join(EVENTS, MOST_A, (("a", "most"), ("b", "m_b")))),
    ("extreme_to_rank", logical.Join(where(KEYED, over(KEYED, "a")), MOST_A, (("a", "most"), ("b", "m_b")))),
    ("extreme_to_rank", logical.Join(KEYED, AVERAGE, (("a", "most"), ("b", "m_b")))),
    ("extreme_to_rank", logical.Join(KEYED, SOME, (("a", "most"), ("b", "m_b")))),
    ("extreme_to_rank", logical.Join(KEYED, TWO, (("a", "most"), ("b", "m_b")))),
    ("extreme_to_rank", logical.Join(KEYED, project(MOST_A, "most"), (("a", "most"),))),
    ("extreme_to_rank", logical.Join(FLOATS, MOST_F, (("f", "most"), ("b", "m_b")))),
    ("extreme_to_rank", where(LEFT_OF_B, over(LEFT_OF_B, "least"))),
    ("extreme_to_rank", logical.SemiJoin(KEYED, RIGHT, (), call("less", A_COLUMN, col(RIGHT, "r_a")), anti=True)),
    ("extreme_to_rank", logical.SemiJoin(KEYED, RIGHT, (("b", "r_b"),), SMALLER, anti=True)),
    ("extreme_to_rank", logical.SemiJoin(KEYED, RIGHT, (), SMALLER)),
    ("extreme_to_rank", logical.SemiJoin(KEYED, THIRD, (), call("less", ID_COLUMN, col(THIRD, "q_id")), anti=True)),
    ("extreme_to_rank", logical.SemiJoin(KEYED, RIGHT, (("id", "r_TS"),), SMALLER, anti=True)),
    ("filter_through_assign", where(ASSIGN, over(ASSIGN, "window_end"))),
    ("filter_through_distinct", where(logical.Distinct(MIN), IN_FAULT)),
    ("filter_through_group_by", where(GROUP, over(GROUP, "n"))),
    ("filter_through_group_by", where(logical.GroupBy(MIN, (), (COUNT,)), call("is_null", big(1)))),
    ("filter_through_join", where(LEFT, over(LEFT, "r_a"))),
    ("filter_through_join", where(JOIN, IN_FAULT)),
    ("filter_through_join", where(logical.Join(KEYED, RIGHT, (("a", "r_a"),), outer="full"), over(LEFT, "id"))),
    ("filter_through_partitions", where(TOP, over(TOP, "a"))),
    ("filter_through_partitions", where(ROWS, over(ROWS, "a"))),
    ("filter_through_partitions", where(NUMBERS, over(NUMBERS, "a"))),
    ("filter_through_partitions", where(NUMBERS, over(NUMBERS, "number"))),
    (
        "filter_through_unnest",
        where(
            logical.Unnest(project(KEYED, l=call("array", col(KEYED, "a"))), "l", "x"),
            over(project(KEYED, x=col(KEYED, "a")), "x"),
        ),
    ),
    ("join_order", JOIN),
    ("merge_filters", where(where(KEYED, IN_FAULT), over(KEYED, "a"))),
    ("merge_projects", project(RATIOS, "id")),
    ("merge_projects", project(RATIOS, "id", twice=call("add", col(RATIOS, "r"), col(RATIOS, "r")))),
    ("merge_projects", project(RATIOS, known=call("is_null", col(RATIOS, "r")))),
    ("now_filter_below", logical.NowFilter(JOIN, (OTHER_SIDE,))),
    ("now_filter_below", logical.NowFilter(LEFT, (NowRange(lower=col(LEFT, "r_TS")),))),
    ("order_conjuncts", where(KEYED, over(KEYED, "id"), IN_FAULT)),
    ("project_through_row_window", project(ROWS, "a")),
    ("project_through_row_window", project(ROWS, "b", r=RATIO)),
    ("project_through_time_window", project(WINDOW, r=RATIO)),
    ("remove_identity_project", project(KEYED, "a", "id", "b", "TS")),
    ("remove_unbounded_window", logical.TimeWindow(EVENTS, None, 5)),
    ("remove_unbounded_window", NOW),
    ("residual_through_join", RATIO_ALONE),
    ("residual_through_join", ANTI),
    ("residual_through_join", logical.Join(KEYED, RIGHT, (("a", "r_a"),), over(LEFT, "id"), "left")),
    ("semi_join_to_join", logical.SemiJoin(EVENTS, RIGHT, (("a", "r_a"),))),
    ("semi_join_to_join", logical.SemiJoin(EVENTS, RIGHT, (("id", "r_id"),), anti=True)),
    ("semi_join_to_join", logical.SemiJoin(EVENTS, KEYED, (("id", "id"),))),
    ("stream_of_now_window", logical.ToStream(NOW, "rstream", Periodic(2))),
    ("stream_of_now_window", logical.ToStream(WINDOW, "rstream", Periodic(1))),
    ("stream_of_now_window", logical.ToStream(logical.TimeWindow(VALUES, 0), "rstream", Periodic(1))),
    ("stream_of_now_window", logical.ToStream(logical.Join(NOW, RIGHT, (("id", "r_id"),)), "rstream", Periodic(1))),
    ("stream_of_stream", logical.ToStream(KEYED, "istream")),
    ("sync_above", where(logical.Sync(KEYED, EVERY2), IN_FAULT)),
    ("sync_above", logical.Union((logical.Sync(KEYED, EVERY2), logical.Sync(EVENTS, EVERY4)))),
    ("sync_above", logical.Union((logical.Sync(KEYED, EVERY2), EVENTS))),
    ("sync_below", logical.Sync(logical.GroupBy(MIN, (), (COUNT,)), POINTS)),
    ("sync_below", logical.Sync(logical.GroupBy(FLOATS, ("b",), (FLOAT_SUM,)), EVERY2)),
    ("sync_below", logical.Sync(logical.GroupBy(ASSIGN, ("window_end",), (COUNT,), "window_end"), EVERY2)),
    ("sync_below", logical.Sync(TOP, EVERY2)),
    ("sync_of_sync", logical.Sync(logical.Sync(KEYED, EVERY2), EVERY4)),
    ("sync_of_sync", logical.Sync(logical.Sync(KEYED, POINTS), EVERY4)),
    ("union_of_windows", logical.Union((WINDOW, NOW))),
    ("union_of_windows", logical.Union((WINDOW, EVENTS))),
    ("union_of_windows", logical.Union((ROWS, ROWS))),
]


@pytest.mark.parametrize("at", range(len(REFUSED)), ids=lambda at: f"{REFUSED[at][0]}-{at}")
def test_refused(at: int) -> None:
    name, node = REFUSED[at]
    assert BY_NAME[name](node) is None


def history(*rows: tuple[int, int | None, str | None, int], events: bool = True) -> History:
    signed = [("+", {"id": id_, "a": a, "b": b}, ts) for id_, a, b, ts in rows]
    return {"e": signed if events else [], "t": [] if events else signed}


A = project(EVENTS, "a")
ONE_ROW = logical.RowWindow(A, 1)
SELECTED = over(A, "a", "equal", 1)
OF_TWO = where(EVENTS, over(EVENTS, "id", "equal", 0)), where(EVENTS, over(EVENTS, "id", "equal", 1))
SYNC_COUNT = logical.Sync(logical.GroupBy(MIN, (), (COUNT,)), POINTS)
BEST = logical.TopK(KEYED, (), (SortKey("b"),), 1)
R_A = project(EVENTS, r_a=col(EVENTS, "a"))
FEW_MOST = most(MAX_A, below=where(KEYED, over(KEYED, "a", "less", 4)))
WRONG: dict[str, tuple[logical.Node, logical.Node, History]] = {
    "δ and a time window": (
        logical.Distinct(logical.TimeWindow(A, 1)),
        logical.TimeWindow(logical.Distinct(A), 1),
        history((0, 1, "x", 1), (0, 1, "x", 2)),
    ),
    "σ and a count window": (
        where(ONE_ROW, SELECTED),
        logical.RowWindow(where(A, SELECTED), 1),
        history((0, 1, "x", 1), (0, 2, "x", 2)),
    ),
    "⊎ and count windows": (
        logical.Union(tuple(logical.RowWindow(stream, 1) for stream in OF_TWO)),
        logical.RowWindow(logical.Union(OF_TWO), 1),
        history((0, 1, "x", 1), (1, 1, "x", 2)),
    ),
    "π that loses the partition of a window": (
        project(logical.RowWindow(EVENTS, 1, ("b",)), "a"),
        logical.RowWindow(project(EVENTS, "a"), 1),
        history((0, 1, "x", 1), (0, 2, "y", 2)),
    ),
    "windows of different lengths": (
        logical.Union((WINDOW, NOW)),
        logical.TimeWindow(logical.Union((EVENTS, EVENTS)), 3),
        history((0, 1, "x", 1)),
    ),
    "σ on the padded side": (
        where(LEFT, call("is_null", col(LEFT, "r_a"))),
        logical.Join(KEYED, where(RIGHT, call("is_null", col(RIGHT, "r_a"))), LEFT.on, outer="left"),
        history((0, 1, "x", 1), events=False),
    ),
    "the left condition of an anti-join": (
        ANTI,
        logical.SemiJoin(where(KEYED, over(KEYED, "id")), RIGHT, ANTI.on, anti=True),
        history((0, 1, "x", 1), events=False),
    ),
    "σ and top-k": (
        where(BEST, over(BEST, "a", "equal", 1)),
        logical.TopK(where(KEYED, over(KEYED, "a", "equal", 1)), (), BEST.order, 1),
        history((0, 2, "w", 1), (1, 1, "x", 2), events=False),
    ),
    "σ and OVER": (
        where(NUMBERS, over(NUMBERS, "a", "equal", 2)),
        logical.WindowFunctions(where(KEYED, over(KEYED, "a", "equal", 2)), NUMBERS.calls),
        history((0, 1, "x", 1), (1, 2, "x", 2), events=False),
    ),
    "ranks of NULL": (
        logical.SemiJoin(A, R_A, (), call("less", A_COLUMN, col(R_A, "r_a")), anti=True),
        logical.TopK(A, (), (SortKey("a", True, False),), 1, method="rank"),
        history((0, 1, "x", 1), (1, None, "x", 2)),
    ),
    "the greatest of others": (
        logical.Join(KEYED, FEW_MOST, (("b", "m_b"),), call("greater_or_equal", A_COLUMN, col(FEW_MOST, "most"))),
        project(
            logical.TopK(
                where(KEYED, call("is_not_null", A_COLUMN), call("is_not_null", col(KEYED, "b"))),
                ("b",),
                (SortKey("a", True),),
                1,
                method="rank",
            ),
            "id",
            "a",
            "b",
            "TS",
            m_b=col(KEYED, "b"),
            most=A_COLUMN,
        ),
        history((0, 3, "x", 1), (1, 1, "x", 2), (2, 5, "x", 3), events=False),
    ),
    "a column in fault that is not read": (
        project(RATIOS, "id"),
        project(KEYED, "id"),
        history((0, 0, "x", 1), events=False),
    ),
    "a group that is there before the first point": (
        SYNC_COUNT,
        logical.GroupBy(logical.Sync(MIN, POINTS), (), (COUNT,)),
        history(),
    ),
    "points that are not points of the other": (
        logical.Sync(logical.Sync(KEYED, EVERY2), EVERY4),
        logical.Sync(KEYED, EVERY4),
        history((0, 1, "x", 1), events=False),
    ),
    "the bound of a column that is no instant": (
        grouped(windows(EVENTS, "a")),
        logical.GroupBy(windows(EVENTS, "a"), ("window_end",), (COUNT,), "window_end"),
        history((0, 1, "x", 3), (0, 1, "x", 8)),
    ),
    "a now-window below a join": (
        logical.ToStream(logical.Join(NOW, RIGHT, (("id", "r_id"),)), "istream"),
        logical.ToStream(logical.Join(EVENTS, RIGHT, (("id", "r_id"),)), "istream"),
        {"e": [("+", {"id": 0, "a": 1, "b": "x"}, 1)], "t": [("+", {"id": 0, "a": 1, "b": "x"}, 2)]},
    ),
    "Rstream of a longer window": (
        logical.ToStream(WINDOW, "rstream", Periodic(1)),
        EVENTS,
        history((0, 1, "x", 1)),
    ),
    "δ without a key": (
        logical.Distinct(A),
        A,
        history((0, 1, "x", 1), (0, 1, "y", 2)),
    ),
    "semi-join without a key": (
        logical.SemiJoin(EVENTS, prefixed(EVENTS, "r_"), (("id", "r_id"),)),
        project(logical.Join(EVENTS, prefixed(EVENTS, "r_"), (("id", "r_id"),)), "id", "a", "b", "TS"),
        history((0, 1, "x", 1), (0, 1, "y", 2)),
    ),
    "columns of top-k over rows that change": (
        project(logical.TopK(KEYED, (), (SortKey("a"),), 1), "id"),
        project(logical.TopK(project(KEYED, "id", "a"), (), (SortKey("a"),), 1), "id"),
        history((0, 1, "x", 1), (1, 1, "x", 2), (0, 1, "y", 3), events=False),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_rewrite_would_change_the_results(name: str) -> None:
    before, wrong, events = WRONG[name]
    right = published(before, before, events, (2, 6))
    assert published(before, wrong, events, (2, 6)).changes != right.changes
    assert published(before, optimize(before), events, (2, 6)).changes == right.changes


def test_a_null_hides_a_fault_of_the_second_filter() -> None:
    node = where(where(KEYED, over(KEYED, "a")), call("greater", call("divide", big(6), col(KEYED, "id")), big(2)))
    merged = BY_NAME["merge_filters"](node)
    assert merged is not None
    rows = history((0, None, "x", 1), (1, 1, "x", 2), (0, 2, "x", 3), events=False)
    assert published(node, merged, rows) == published(node, node, rows)


def test_a_key_of_the_result_is_not_pruned() -> None:
    plan = optimize(project(JOIN, "id", "r_b"))
    assert {"id"} <= {name for node in walk(plan) if isinstance(node, logical.Project) for name, _ in node.outputs}


def test_equal_predicates_are_one_filter() -> None:
    nested = where(where(KEYED, over(KEYED, "a")), call("less", col(KEYED, "id"), big(2)))
    mirrored = where(KEYED, call("greater", big(2), col(KEYED, "id")), call("less", big(0), col(KEYED, "a")))
    plan = optimize(nested)
    assert fingerprint(plan) == fingerprint(optimize(mirrored))
    assert isinstance(plan, logical.Filter) and columns(plan.predicate) == {"id", "a"}


def test_a_sum_is_exact_in_any_order_of_changes() -> None:
    exact = logical.Sync(logical.GroupBy(project(KEYED, "a", "b"), ("b",), (SUM,)), EVERY2)
    assert BY_NAME["sync_below"](exact) is not None


@pytest.mark.parametrize(
    "below", [logical.Sync(KEYED, POINTS), logical.Distinct(where(KEYED, over(KEYED, "a")))], ids=["sync", "distinct"]
)
def test_row_age_is_kept_where_it_breaks_ties(below: logical.Node) -> None:
    rows = project(below, "id", "a")
    assert fingerprint(optimize(rows)) != fingerprint(rows)
    for ranked in (logical.TopK(rows, (), (), 2), logical.WindowFunctions(rows, (replace(NUMBERED, partition=()),))):
        assert fingerprint(optimize(ranked)) == fingerprint(ranked)


def test_constants_are_folded_within_a_budget_so_that_planning_is_never_expensive() -> None:
    def text(value: str) -> Literal:
        return Literal(value, pa.string())

    long = call("replace", call("repeat", text("x"), big(20_000)), text("x"), call("repeat", text("y"), big(20_000)))
    short = call("repeat", text("x"), big(3))
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan = optimize(project(KEYED, "id", n=call("length", long), s=short, m=call("length", short)))
    assert time.process_time() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    assert isinstance(plan, logical.Project)
    assert dict(plan.outputs)["s"] == text("xxx")
    assert dict(plan.outputs)["m"] == big(3)
    assert isinstance(dict(plan.outputs)["n"], Call)
