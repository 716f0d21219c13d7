"""Accumulators are a map: a look-up finds the row that was upserted last for a key, whatever runs hold it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.run import HASH, Run
from operators.kernels.merging import MERGE_RATIO
from operators.state.accumulators import Accumulators
from tests.support.strategies import examples

KEY = st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, 0.0, float("nan"), 1.5]))
#: Batches of upserts: values by key; None removes the key.
BATCHES = st.lists(st.dictionaries(KEY, st.one_of(st.none(), st.integers(0, 9)), max_size=6), max_size=10)
SCHEMA = {"k": pl.String, "f": pl.Float64, "n": pl.Int64}


def batch_of(batch) -> tuple[pl.DataFrame, pl.Series]:
    rows = [(k, f, -1 if n is None else n) for (k, f), n in batch.items()]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row"), pl.Series(
        [n is None for n in batch.values()], dtype=pl.Boolean
    )


def fill(state: Accumulators, batches) -> tuple[Accumulators, dict]:
    present: dict = {}
    for batch in batches:
        state = state.upsert(*batch_of(batch), 0)
        present |= {repr(key): (key, n) for key, n in batch.items()}
    return state, {name: (*key, n) for name, (key, n) in present.items() if n is not None}


@settings(max_examples=examples(50))
@given(BATCHES, st.lists(KEY, max_size=6))
def test_lookup_finds_the_last_row_of_each_key_that_is_present(batches, keys) -> None:
    state, present = fill(Accumulators(("k", "f")), batches)
    looked_up = state.lookup(
        pl.DataFrame([(*key,) for key in keys], schema={"k": pl.String, "f": pl.Float64}, orient="row")
    )
    expected = {repr(key): present[repr(key)] for key in keys if repr(key) in present}
    assert sorted(map(repr, looked_up.rows())) == sorted(repr(row) for row in expected.values())


@settings(max_examples=examples(50))
@given(BATCHES)
def test_runs_are_sorted_shrink_and_hold_a_key_once(batches) -> None:
    state, present = fill(Accumulators(("k", "f")), batches)
    assert all((run.sorted_column[1:] >= run.sorted_column[:-1]).all() for run in state.runs)
    assert all(not run.frame.select("k", "f").is_duplicated().any() for run in state.runs)
    heights = [run.height for run in state.runs]
    assert all(elder >= MERGE_RATIO * younger for elder, younger in zip(heights[1:], heights[2:], strict=False))
    whole = [run.frame for run in state.upsert(*batch_of({("a", None): 1}), 0).runs]
    assert whole and len(present) <= sum(frame.height for frame in whole)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=6))
def test_accumulators_without_keys_have_one_row(values) -> None:
    state = Accumulators(())
    for n in values:
        state = state.upsert(pl.DataFrame({"n": [n or 0]}), pl.Series([n is None]), 0)
    looked_up = state.lookup(pl.DataFrame())
    assert looked_up.rows() == ([(values[-1],)] if values and values[-1] is not None else [])


def test_tombstones_vanish_in_the_eldest_run() -> None:
    state, _ = fill(Accumulators(("k", "f")), [{("a", 1.5): 1}, {("a", 1.5): None}])
    assert state.runs == ()


def test_rows_beyond_their_bound_vanish_whatever_the_batches_are() -> None:
    state = Accumulators(("k",), bound="k")
    for at in range(0, 10_000, 100):
        rows = pl.DataFrame({"k": range(at, at + 100), "n": range(100)})
        state = state.upsert(rows, pl.repeat(False, 100, eager=True), at - 200)
    assert sum(run.height for run in state.runs) <= 1000
    assert state.lookup(pl.DataFrame({"k": [9_950]})).rows() == [(9_950, 50)]


def test_expired_rows_do_not_stay_in_the_state() -> None:
    state = Accumulators(("k",), bound="k").upsert(
        pl.DataFrame({"k": range(10_000), "n": range(10_000)}), pl.repeat(False, 10_000, eager=True), -1
    )
    state = state.upsert(pl.DataFrame({"k": [10_001], "n": [1]}), pl.Series([False]), 10_000)
    assert sum(run.height for run in state.runs) == 1


def test_runs_that_did_not_change_stay_the_same_objects() -> None:
    keys = pl.DataFrame({"k": range(1000), "n": range(1000)})
    elder = Accumulators(("k",)).upsert(keys, pl.repeat(False, 1000, eager=True), 0)
    younger = elder.upsert(keys[:10], pl.repeat(False, 10, eager=True), 0)
    assert younger.runs[0] is elder.runs[0]


def test_colliding_hashes_do_not_mix_keys() -> None:
    def run(rows) -> Run:
        frame = pl.DataFrame(rows, schema={"k": pl.String, "n": pl.Int64}, orient="row")
        same = Accumulators(("k",)).upsert(pl.DataFrame({"k": ["a"]}), pl.Series([False]), 0).runs[0].sorted_column[0]
        return Run(frame.with_columns(pl.lit(False).alias("__gone"), pl.lit(same, pl.UInt64).alias(HASH)), "key")

    state = Accumulators(("k",), None, (run([("a", 1), ("b", 2), ("c", 3)]), run([("b", 4)])))
    assert state.lookup(pl.DataFrame({"k": ["a"]})).rows() == [("a", 1)]
    merged = state._merge(0, state.runs)
    assert sorted(merged.frame.select("k", "n").rows()) == [("a", 1), ("b", 4), ("c", 3)]


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([[1.0, None], [], None, [float("nan")]]),
        pl.Series([{"a": 1, "b": [1]}, {"a": None, "b": None}, None, {"a": 2, "b": []}]),
        pl.Series([b"x", b"", None, b"y"]),
        pl.Series(["1.10", "2.20", None, "0.00"]).cast(pl.Decimal(9, 2)),
        pl.Series([True, False, None]),
        pl.Series([1, 2, None]).cast(pl.Date),
        pl.Series([1, 2, None]).cast(pl.Datetime("us")),
        pl.Series([-0.0, float("inf"), None, float("nan")], dtype=pl.Float32),
    ],
    ids=lambda values: str(values.dtype),
)
def test_keys_of_every_type(values) -> None:
    rows = pl.DataFrame({"a.b c": values, "n": np.arange(len(values))})
    none = pl.repeat(False, len(values), eager=True)
    state = Accumulators(("a.b c",)).upsert(rows, none, 0).upsert(rows.with_columns(pl.col("n") + 10), none, 0)
    assert sum(run.height for run in state.runs) == len(values)
    assert sorted(state.lookup(rows.select("a.b c"))["n"]) == [10 + at for at in range(len(values))]
