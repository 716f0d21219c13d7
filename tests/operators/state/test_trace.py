"""A trace is a multiset: look-ups find all appended elements, whatever runs hold them."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta
from operators.core.run import Run, key_hash
from operators.kernels.merging import MERGE_RATIO
from operators.state.trace import Trace, split_by_key

KEYS = st.sampled_from([None, "a", "b", "c"])
ELEMENT = st.tuples(KEYS, st.sampled_from([None, 1, 2]), st.integers(-1, 2))
#: Batches at growing frontiers: each (rows with an offset above the frontier, step of the frontier).
BATCHES = st.lists(
    st.tuples(st.lists(st.tuples(ELEMENT, st.integers(0, 4)), max_size=6), st.integers(0, 3)), max_size=8
)


def delta_of(rows) -> Delta:
    columns = {"k": pl.String, "v": pl.Int64, FROM: pl.Int64, TO: pl.Int64, WEIGHT: pl.Int64, ORDER: pl.Int64}
    return Delta(pl.DataFrame(rows, schema=columns, orient="row"))


def fill(trace: Trace, batches):
    """The trace, all elements, and the frontier."""
    frontier, everything, order = 0, [], 0
    for batch, step in batches:
        rows = []
        for (k, v, weight), above in batch:
            order += 1
            if weight:
                rows.append((k, v, frontier + above, FOREVER, weight, order))
        everything += rows
        frontier += step
        trace = trace.append(delta_of(rows), frontier)
    return trace, everything, frontier


def multiplicities(rows, at) -> dict:
    counted: Counter = Counter()
    for k, v, start, end, weight, *_ in rows:
        if start <= at < end:
            counted[(k, v)] += weight
    return {row: weight for row, weight in counted.items() if weight}


@given(BATCHES, st.lists(KEYS, min_size=1, max_size=3), st.booleans())
def test_lookup_finds_the_elements_of_the_keys_at_every_instant_above(batches, keys, composite) -> None:
    trace, everything, frontier = fill(Trace("key", ("k", "v") if composite else ("k",)), batches)
    wanted = pl.DataFrame({"k": keys, "v": [1] * len(keys)}, schema={"k": pl.String, "v": pl.Int64})
    matches = trace.lookup(wanted, frontier).frame
    rows = matches.select("k", "v", FROM, TO, WEIGHT).rows() if matches.width else []
    expected = [row for row in everything if row[0] in keys and (row[1] == 1 or not composite)]
    for at in range(frontier, frontier + 6):
        assert multiplicities(rows, at) == multiplicities(expected, at)


@given(BATCHES)
def test_runs_shrink_geometrically_and_are_sorted(batches) -> None:
    for trace in (Trace("key", ("k",)), Trace("time")):
        filled, _, _ = fill(trace, batches)
        heights = [run.height for run in filled.runs]
        assert all(elder >= MERGE_RATIO * younger for elder, younger in zip(heights, heights[1:], strict=False))
        assert all((run.sorted_column[1:] >= run.sorted_column[:-1]).all() for run in filled.runs)


@given(BATCHES, st.integers(0, 6), st.integers(0, 6))
def test_a_trace_by_time_gives_each_element_of_a_range_once(batches, bound, other_bound) -> None:
    trace, everything, frontier = fill(Trace("time"), batches)
    start, end = frontier + min(bound, other_bound), frontier + max(bound, other_bound)
    elements = [row for delta in trace.between(start, end) for row in delta.frame.rows()]
    assert sorted(elements, key=repr) == sorted((row for row in everything if start <= row[2] < end), key=repr)
    kept = [row for delta in trace.forget(start).between(start, FOREVER) for row in delta.frame.rows()]
    assert sorted(kept, key=repr) == sorted((row for row in everything if row[2] >= start), key=repr)


def test_a_run_by_time_that_is_half_forgotten_shrinks() -> None:
    trace = Trace("time").append(delta_of([("a", at, at, FOREVER, 1, at) for at in range(100)]), 0)
    assert [run.height for run in trace.forget(49).runs] == [100]
    assert trace.forget(49).runs[0] is trace.runs[0]
    assert [run.height for run in trace.forget(50).runs] == [50]
    assert trace.forget(100).runs == ()


def test_cancelled_elements_take_no_space() -> None:
    trace = Trace("key", ("k",))
    for at in range(50):
        rows = [("a", at, at, FOREVER, 1, 2 * at)] + ([("a", at - 1, at, FOREVER, -1, 2 * at)] if at else [])
        trace = trace.append(delta_of(rows), at + 1)
    assert sum(run.height for run in trace.runs) <= 4
    assert trace.lookup(pl.DataFrame({"k": ["a"]}), 50).snapshot(50).rows() == [("a", 49)]


@given(st.lists(ELEMENT, max_size=20), st.integers(1, 5))
def test_split_keeps_rows_of_one_key_together_and_loses_none(rows, parts) -> None:
    delta = delta_of([(k, v, 0, FOREVER, 1, at) for at, (k, v, _) in enumerate(rows)])
    cut = split_by_key(delta, ("k",), parts)
    assert len(cut) == parts
    assert sorted(row for part in cut for row in part.frame[ORDER]) == list(range(len(rows)))
    for key in {k for k, _, _ in rows}:
        assert sum(part.frame.filter(pl.col("k").eq_missing(pl.lit(key, pl.String))).height > 0 for part in cut) == 1


def test_colliding_hashes_do_not_mix_keys() -> None:
    frame = delta_of([("a", 1, 0, FOREVER, 1, 0), ("b", 2, 0, FOREVER, 1, 1)]).frame
    same = key_hash(frame[:1], ["k"])[0]
    run = Run(frame.with_columns(pl.lit(same, pl.UInt64).alias("__hash")), "key")
    matches = Trace("key", ("k",), (run,)).lookup(pl.DataFrame({"k": ["a"]}), 0)
    assert matches.snapshot(0).rows() == [("a", 1)]
