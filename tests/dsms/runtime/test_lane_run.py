"""Stages of a lane: they continue from restored state, and the exchange loses no element."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from dsms.planner.physical.dataflow import Exchange
from dsms.planner.physical.fragment_plan import compile_lane, plan_fragment
from dsms.runtime.stages.lane_step import read_stage, route, target_stage
from dsms.runtime.stages.stored_state import all_names, name_runs, restore
from operators.core.delta import ORDER, ORDER_SHIFT, Delta, partition_of
from tests.support.fake_environment import apply_all

PLAN = plan_fragment(
    apply_all(
        "REGISTER SOURCE T (k VARCHAR, v BIGINT) FROM t; CREATE STREAM S OVER T KEY k; CREATE STREAM A OVER T KEY NULL;"
        "CREATE STREAMED VIEW V AS SELECT k, v FROM S WHERE v > 1; CREATE STREAMED VIEW W AS SELECT k, TS AS at FROM V;"
        "CREATE STREAMED VIEW X AS SELECT v * 2 AS w FROM A"
    )[0],
    2,
)
LANES = {query.id: compile_lane(query.id, [query]) for query in PLAN.queries.values()}
LANES["all"] = compile_lane("all", PLAN.queries.values())
ANY_LANE = next(iter(LANES.values()))
RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 9)), max_size=15)


def delta_of(lane, records) -> Delta:
    rows = [("+", {"k": k, "v": v}, ts) for k, v, ts in records]
    return Delta.of(rows, lane.sources[0].schema)


@given(RECORDS, st.lists(st.integers(1, 9), max_size=3).map(sorted), st.sampled_from(sorted(LANES)))
def test_state_passed_by_name_equals_the_state(records, stops, lane_id) -> None:
    lane = LANES[lane_id]
    sent = read_stage(lane, 0, delta_of(lane, records)).sent
    store: dict[str, pl.DataFrame] = {}
    state, names = {}, {}
    edges = [0, *stops, 10]
    for number, (start, end) in enumerate(zip(edges, edges[1:], strict=False)):
        now = sent if number == 0 else {edge: Delta(delta.frame.clear()) for edge, delta in sent.items()}
        straight = target_stage(lane, (1, 0), now, state, ({0: start}, {0: end}))
        stored = target_stage(lane, (1, 0), now, restore(lane, 1, names, store.__getitem__), ({0: start}, {0: end}))
        assert stored.changes.keys() == straight.changes.keys() == lane.result_vertices
        assert all(stored.changes[output].equals(changes) for output, changes in straight.changes.items())
        named, fresh = name_runs(lane, stored.state, f"e{number}")
        names |= named
        assert not store.keys() & fresh.keys()
        store |= fresh
        assert set(all_names(names)) <= store.keys()
        state |= straight.state


def test_the_source_stage_reads_what_is_used() -> None:
    read = {query.name: LANES[query.id].columns_read(0) for query in PLAN.queries.values()}
    assert (read["X"], read["V"]) == ({"v"}, {"k", "v"})
    assert LANES["all"].columns_read(0) == {"k", "v"}


@given(RECORDS, st.integers(1, 4), st.sampled_from(["k", "source"]))
def test_the_exchange_gives_each_element_to_one_target(records, parts, by) -> None:
    from_three_partitions = (pl.col(ORDER) % 3) * (1 << ORDER_SHIFT) + pl.col(ORDER)
    whole = delta_of(ANY_LANE, records).frame.with_columns(from_three_partitions)
    cut = route(Exchange(0, 1, ("k",) if by == "k" else "source"), Delta(whole), parts)
    assert len(cut) == parts
    assert sorted(order for part in cut for order in part.frame[ORDER]) == sorted(whole[ORDER])
    owner = pl.col("k") if by == "k" else partition_of().alias("k")
    owners = [set(part.frame.select(owner).to_series()) for part in cut]
    assert sum(map(len, owners)) == len(set().union(*owners))


def test_exchange_to_all_to_target_0_and_to_the_same_target() -> None:
    whole = delta_of(ANY_LANE, [("a", 1, 1), ("b", 2, 2)])
    assert [len(part) for part in route(Exchange(0, 1, "all"), whole, 3)] == [2, 2, 2]
    assert [len(part) for part in route(Exchange(0, 1, ()), whole, 3, target=1)] == [2, 0, 0]
    assert [len(part) for part in route(Exchange(0, 2, "stay"), whole, 3, target=1)] == [0, 2, 0]
