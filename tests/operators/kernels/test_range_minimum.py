"""best_of_ranges: at each position the least rank of the ranges that cover it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels.range_minimum import best_of_ranges

RANGE = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 99))


@given(st.lists(RANGE, max_size=12), st.integers(20, 40))
def test_every_position_has_the_least_rank_that_covers_it(ranges, size) -> None:
    columns = np.array(ranges, np.int64).reshape(-1, 3)
    best = best_of_ranges(columns[:, 0], columns[:, 1], columns[:, 2], size)
    covering = [[rank for start, end, rank in ranges if start <= at < end] for at in range(size)]
    assert best.tolist() == [min(ranks, default=-1) for ranks in covering]
