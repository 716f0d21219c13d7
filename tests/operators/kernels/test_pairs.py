"""Sorting by two columns, and the greatest value so far, are what NumPy's lexsort and a loop give."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.kernels.pairs import greatest_so_far, group_numbers, sorted_by_two
from operators.kernels.points import GREATEST, LEAST
from tests.support.strategies import examples

#: Values whose pairs fit in an integer, and values whose pairs do not.
VALUES = st.one_of(st.integers(-5, 5), st.sampled_from([LEAST, LEAST + 1, -(2**62), 2**62 - 1, 2**62, GREATEST]))
ROWS = st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=12)


@settings(max_examples=examples(300))
@given(ROWS, st.booleans())
def test_two_columns_sort_like_lexsort(rows, hashes: bool) -> None:
    kind, factor = (np.uint64, 2**62) if hashes else (np.int64, 1)
    major = np.array([factor * group for group, _ in rows], kind)
    minor = np.array([value for _, value in rows], np.int64)
    assert sorted_by_two(major, minor).tolist() == np.lexsort((minor, major)).tolist()


@settings(max_examples=examples(300))
@given(ROWS)
def test_the_greatest_value_so_far(rows) -> None:
    ordered = sorted(rows, key=lambda row: row[0])
    groups, values = (
        (np.array(column, np.int64) for column in zip(*ordered, strict=True)) if rows else 2 * (np.empty(0),)
    )
    expected, greatest = list[int](), dict[int, int]()
    for group, value in ordered:
        greatest[group] = max(value, greatest.get(group, value))
        expected.append(greatest[group])
    found = greatest_so_far(group_numbers(groups), values)
    assert found.tolist() == expected
