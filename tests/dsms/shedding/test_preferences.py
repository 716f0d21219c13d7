"""Which values a preference keeps first: the parts that are kept, and the order of values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.shedding.observed_input import ObservedInput
from dsms.shedding.preferences import MOST_LISTED, preferred, still_right
from operators.streams.preferred_values import Preferred
from operators.streams.shed import ShedStatistics

COUNTS = st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, 50), max_size=12)
RATES = st.integers(1, 63).map(lambda number: number / 64)


def kept(chosen: Preferred, counts: dict[int, int], rows: int) -> float:
    """The part of the rows that is kept."""
    listed = sum(count for value, count in counts.items() if value in chosen.values)
    return (listed * chosen.listed + (rows - listed) * chosen.others) / rows


@given(COUNTS, st.integers(1, 100), RATES, st.sampled_from(["asc", "desc"]))
def test_the_part_that_is_kept_is_the_rate_and_preferred_values_come_first(counts, more, rate, direction) -> None:
    """Besides the counted values, there are `more` rows with values too rare to be counted."""
    rows = sum(counts.values()) + more
    chosen = preferred(rate, direction, counts, rows)
    assert min(chosen.listed, chosen.others) >= 0 and max(chosen.listed, chosen.others) <= 1
    assert kept(chosen, counts, rows) == pytest.approx(rate)
    least = min((counts[value] for value in chosen.values), default=0)
    assert all(counts[value] <= least for value in counts.keys() - {*chosen.values} if chosen.values)
    if chosen.values:
        first, then = (chosen.listed, chosen.others) if direction == "desc" else (chosen.others, chosen.listed)
        assert first == pytest.approx(1) or then == pytest.approx(0, abs=1e-12)


def test_a_list_is_bounded() -> None:
    counts = dict.fromkeys(range(1_000), 1.0)
    for direction in ("asc", "desc"):
        chosen = preferred(0.5, direction, counts, 1_000)
        assert len(chosen.values) == MOST_LISTED
        assert kept(chosen, counts, 1_000) == pytest.approx(0.5)


def test_a_list_is_right_until_its_values_have_another_part_of_the_rows() -> None:
    chosen = preferred(0.5, "desc", {1: 40.0, 2: 10.0}, 100)
    assert chosen.values == (1, 2)
    assert still_right(chosen, {1: 41.0, 2: 10.0}, 100)
    assert not still_right(chosen, {1: 10.0, 3: 50.0}, 100)


def test_counts_fade_and_the_most_frequent_values_are_kept() -> None:
    seen = ObservedInput().after(0.0, 0, ShedStatistics(100, 100, 0, 9, counts={1: 60.0, 2: 40.0}))
    later = seen.after(1e9, 0, ShedStatistics(10, 10, 10, 19, counts={3: 10.0}))
    assert seen.counts == {1: 60.0, 2: 40.0}
    assert later.counts == {3: 10.0}
    many = seen.after(0.0, 0, ShedStatistics(5_000, 5_000, 0, 9, counts=dict.fromkeys(range(5, 5_005), 1.0)))
    assert len(many.counts) == 1_024 and {1, 2} <= many.counts.keys()
