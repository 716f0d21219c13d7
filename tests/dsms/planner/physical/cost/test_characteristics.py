"""The cost model's formulas, compared with the numbers in Krämer's thesis and with streams whose elements are counted
one by one."""

from __future__ import annotations

import numpy as np
import pytest

from dsms.planner.physical.cost import characteristics as pipes
from dsms.planner.physical.cost.characteristics import Characteristics

#: The number of instants of a counted stream, and its steady part.
SPAN = 30_000
STEADY = slice(5_000, 25_000)


@pytest.mark.parametrize(
    ("found", "gap", "length"),
    [
        (pipes.filtered(Characteristics(10, 100), 0.25), 40, 100),
        (pipes.united(Characteristics(10, 100), Characteristics(5, 50)), 3.3333, 66.6667),
        (pipes.joined(Characteristics(10, 500), Characteristics(20, 300)), 0.25, 187.5),
        (pipes.without_duplicates(Characteristics(10, 1000), 50), 10, 500),
        (pipes.without_duplicates(Characteristics(10, 1000), 200), 10, 1000),
        (pipes.aggregated(Characteristics(10, 1000, 1)), 5.51416, 5.51416),
        (pipes.aggregated(Characteristics(10, 1000, 20)), 20.35806, 20.35806),
        (pipes.aggregated(Characteristics(100, 50, 1)), 100, 50),
        (pipes.grouped(Characteristics(1, 1000, 1), 20), 0.525167, 10.50334),
        (pipes.split(Characteristics(10, 100), 10), 1, 10),
        (pipes.coarsened(Characteristics(10, 20, 1), 100), 50, 100),
        (pipes.coarsened(Characteristics(10, 200, 1), 100), 10, 200),
        (pipes.time_windowed(Characteristics(10, 1), 60), 10, 60),
        (pipes.row_windowed(Characteristics(10, 1), 50), 10, 500),
        (pipes.row_windowed(Characteristics(10, 1), 50, 4), 10, 2000),
    ],
)
def test_the_vectors_of_the_thesis(found: Characteristics, gap: float, length: float) -> None:
    """Section 14.1 of the digest: the gap and the length after each operator."""
    assert (found.gap, found.length) == (pytest.approx(gap, rel=1e-4), pytest.approx(length, rel=1e-4))


def test_the_state_of_the_thesis() -> None:
    """The number of elements that a join keeps, and of partial aggregates of a scalar and of a grouped aggregation."""
    assert pipes.kept_by_join(Characteristics(10, 500), Characteristics(20, 300)) == 51 + 15.25
    assert pipes.pending_ends(Characteristics(10, 1000)) == pytest.approx(95.2079, abs=1e-4)
    assert pipes.pending_ends(Characteristics(10, 1000, 20)) == pytest.approx(43.3690, abs=1e-4)
    assert pipes.pending_ends(Characteristics(20, 1000)) == pytest.approx(48.7944, abs=1e-4)


def intervals(gap: float, length: int, seed: int) -> np.ndarray:
    """The starts and ends of Poisson arrivals, one row for each element."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.exponential(gap, int(2 * SPAN / gap))).astype(int)
    starts = starts[starts < SPAN]
    return np.stack([starts, starts + length], axis=1)


def alive(elements: np.ndarray) -> np.ndarray:
    """How many elements are alive at each instant."""
    edges = np.zeros(2 * SPAN, int)
    np.add.at(edges, elements[:, 0], 1)
    np.add.at(edges, elements[:, 1], -1)
    return np.cumsum(edges)[:SPAN]


@pytest.mark.parametrize(("gap", "length"), [(10, 100), (10, 1000), (3, 50)])
def test_a_window_keeps_what_is_counted(gap: float, length: int) -> None:
    counted = alive(intervals(gap, length, 1))[STEADY].mean()
    assert Characteristics(gap, length).alive == pytest.approx(counted, rel=0.05)


@pytest.mark.parametrize(("lengths", "gaps"), [((500, 300), (10, 20)), ((50, 900), (5, 40))])
def test_a_join_is_as_long_and_as_frequent_as_the_pairs_that_are_counted(
    lengths: tuple[int, int], gaps: tuple[float, float]
) -> None:
    left, right = (intervals(gap, length, seed) for gap, length, seed in zip(gaps, lengths, (2, 3), strict=True))
    starts = np.maximum.outer(left[:, 0], right[:, 0])
    overlaps = np.minimum.outer(left[:, 1], right[:, 1]) - starts
    found = overlaps[(overlaps > 0) & (starts >= STEADY.start) & (starts < STEADY.stop)]
    expected = pipes.joined(*(Characteristics(gap, length) for gap, length in zip(gaps, lengths, strict=True)))
    assert expected.rate == pytest.approx(len(found) / (STEADY.stop - STEADY.start), rel=0.08)
    assert expected.length == pytest.approx(found.mean(), rel=0.05)


def by_group(elements: np.ndarray, groups: int, seed: int) -> list[np.ndarray]:
    """The number of elements of each group at each instant."""
    keys = np.random.default_rng(seed).integers(groups, size=len(elements))
    return [alive(elements[keys == key]) for key in range(groups)]


@pytest.mark.parametrize("groups", [4, 20, 60, 300])
def test_coalesced_duplicates_are_as_counted(groups: int) -> None:
    """This includes rows with about one valid copy, which are between the two cases of the thesis."""
    stream = Characteristics(10, 300)
    present = [(counts > 0)[STEADY].astype(int) for counts in by_group(intervals(10, 300, 4), groups, 5)]
    begins = sum(int((np.diff(row) > 0).sum()) for row in present) / (STEADY.stop - STEADY.start)
    expected = pipes.present(stream, groups)
    assert expected.alive == pytest.approx(sum(row.mean() for row in present), rel=0.06)
    assert expected.rate == pytest.approx(begins, rel=0.15, abs=1e-4)


@pytest.mark.parametrize("groups", [2, 10, 40, 200])
def test_groups_change_as_often_as_counted(groups: int) -> None:
    """A group has a new result whenever its number of elements changes; values are not considered."""
    changed = 0
    for counts in by_group(intervals(10, 300, 6), groups, 7):
        steady = counts[STEADY]
        differs = np.diff(steady) != 0
        changed += int((differs & (steady[1:] > 0)).sum() + (differs & (steady[:-1] > 0)).sum())
    expected = pipes.changing_groups(Characteristics(10, 300), groups)
    assert 2 * expected.rate == pytest.approx(changed / (STEADY.stop - STEADY.start), rel=0.06)


@pytest.mark.parametrize(("copies", "rows"), [(0.05, 10), (1, 10), (4, 10), (0.05, 1000), (4, 1000)])
def test_distinct_rows_are_found_again(copies: float, rows: int) -> None:
    stream = Characteristics(1, copies * rows)
    seen = pipes.present(stream, rows).alive
    assert pipes.distinct_rows(stream.alive, seen) == pytest.approx(rows, rel=1e-2)


def test_a_dense_stream_and_granules_as_long_as_elements_have_no_limit_missing() -> None:
    """Extreme numbers: very many valid elements, and granules that are longer than elements."""
    crowded = Characteristics(1e-6, 1e9)
    for stream in (pipes.present(crowded, 5), pipes.changing_groups(crowded, 5), pipes.aggregated(crowded)):
        assert 0 < stream.rate < float("inf") and stream.length > 0
    assert pipes.aggregated(Characteristics(1, 2, granule=5)).rate == 1 / 5
