"""The size of batches adapts to the time that they take, within bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsms.runtime.batching.batch_size import BatchSize


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0, 1e4))
def test_batch_size_at_most_doubles_or_halves_within_its_bounds(size, records, seconds) -> None:
    pace = BatchSize(size, 1, 10**6, 1.0, 3.0)
    after = pace.after(records=records, seconds=seconds)
    assert 1 <= after.batch_records <= 10**6
    assert size // 2 <= after.batch_records <= 2 * size
    assert (after.most, after.target_s) == (pace.most, pace.target_s)


def test_batch_size_converges_to_the_target() -> None:
    pace = BatchSize(1_000, 1, 10**6, 0.5, 1.5)
    for _ in range(20):
        pace = pace.after(records=pace.batch_records, seconds=pace.batch_records / 100_000)
    assert 45_000 <= pace.batch_records <= 55_000


def test_batch_size_never_falls_below_the_minimum() -> None:
    assert BatchSize(500, 400, 10**6, 1.0, 3.0).after(records=500, seconds=60).batch_records == 400


def test_batch_that_was_not_full_does_not_change_the_size() -> None:
    pace = BatchSize(1_000, 1, 10**6, 1.0, 3.0)
    assert pace.after(records=10, seconds=0.1) == pace


def test_lagging_query_gets_longer_batches() -> None:
    """At 1 000 records a second and a fixed half second for each batch, a batch of three seconds has 2 500 records."""
    pace = BatchSize(1_000, 1, 10**6, 1.0, 3.0)
    assert pace.behind_records == 1_000
    for _ in range(20):
        records = pace.behind_records
        pace = pace.after(records=records, seconds=0.5 + records / 1_000)
    assert 2_200 <= pace.behind_records <= 2_800


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_no_batch_is_larger_than_the_largest(size: int, most: int) -> None:
    pace = BatchSize(min(size, most), 1, most, 1.0, 3.0, measured=True)
    assert pace.batch_records <= pace.behind_records <= most
