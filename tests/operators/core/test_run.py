"""Runs: elements by hash, for hashes in any order and beyond those of the run."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.core.run import HASH, Run
from tests.support.strategies import examples

HASHES = st.lists(st.integers(0, 12) | st.sampled_from([0, 2**63, 2**64 - 1]), max_size=20)


@settings(max_examples=examples(300))
@given(HASHES, HASHES)
def test_matches_of_hashes_in_any_order(held: list[int], asked: list[int]) -> None:
    run = Run(pl.DataFrame({HASH: pl.Series(sorted(held), dtype=pl.UInt64)}), "key")
    low, counts = run.matches(np.array(asked, np.uint64))
    found = [run.frame[HASH][begin : begin + many].to_list() for begin, many in zip(low, counts, strict=True)]
    assert found == [[hash_] * held.count(hash_) for hash_ in asked]


def test_a_part_keeps_the_name_if_only_its_first_rows_lack() -> None:
    run = Run(pl.DataFrame({HASH: pl.Series([1, 2, 3, 4], dtype=pl.UInt64)}), "key", "1/a", merging=True)
    tail = run.part(1, 4).part(1, 3)
    assert (tail.name, tail.skipped, tail.merging, tail.frame[HASH].to_list()) == ("1/a", 2, True, [3, 4])
    head = run.part(0, 2)
    assert (head.name, head.skipped, head.merging, head.frame[HASH].to_list()) == (None, 0, True, [1, 2])
