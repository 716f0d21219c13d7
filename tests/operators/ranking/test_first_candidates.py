"""FirstCandidates: the first rows of partitions are the same over its output as over its input, for any cuts."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.delta import FOREVER, FROM, ORDER, TO, WEIGHT, Delta, union_all
from operators.core.operator import Move
from operators.core.sort_key import SortKey
from operators.ranking.first_candidates import FirstCandidates
from operators.ranking.top_k import TopK
from tests.support.strategies import examples

END = 6
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("w", pa.int64())])
#: (key, value or NULL, tie breaker, instant)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]), st.none() | st.integers(0, 3), st.integers(0, 2), st.integers(0, END - 1)
    ),
    max_size=25,
)
KEYS = st.builds(SortKey, st.just("v"), st.booleans(), st.sampled_from([None, True, False]))


def elements(rows) -> Delta:
    frame = pl.DataFrame(rows, schema={"k": pl.String, "v": pl.Int64, "w": pl.Int64, FROM: pl.Int64}, orient="row")
    lasting = frame.with_columns(pl.lit(FOREVER, pl.Int64).alias(TO), pl.lit(1, pl.Int64).alias(WEIGHT))
    return Delta(lasting.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(ORDER)))


def first(partition: tuple[str, ...], keys: tuple[SortKey, ...], delta: Delta) -> list[tuple]:
    top = TopK(partition, keys, 1, schema=SCHEMA, append_only=True)
    return sorted(top.step(delta, top.traces(), Move(0, END)).delta.frame.rows(), key=repr)


@settings(max_examples=examples(200))
@given(ROWS, KEYS, st.booleans(), st.booleans(), st.lists(st.integers(0, 25), max_size=4))
def test_the_first_rows_are_the_same(rows, key, alone, tie, cuts) -> None:
    delta, partition = elements(rows), () if alone else ("k",)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [Delta(delta.frame[low:high]) for low, high in zip(bounds, bounds[1:], strict=False)]
    foremost = FirstCandidates(partition, key)
    left = union_all([foremost.step(part, (), Move(0, END)).delta for part in parts])
    keys = (key, SortKey("w")) if tie else (key,)
    assert first(partition, keys, left) == first(partition, keys, delta)


@pytest.mark.parametrize(("descending", "left"), [(True, [9, 9, 2]), (False, [1, 2])])
def test_only_first_row_candidates_are_left(descending: bool, left: list[int]) -> None:
    delta = elements([("a", 9, 0, 1), ("a", 1, 0, 1), ("a", 9, 0, 1), ("a", 2, 0, 1)])
    assert (
        FirstCandidates(("k",), SortKey("v", descending)).step(delta, (), Move(0, END)).delta.frame["v"].to_list()
        == left
    )
