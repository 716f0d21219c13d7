"""The size of batches follows the time they take, within bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsms.executor.pace import Pace


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0, 1e4))
def test_it_at_most_doubles_or_halves_and_keeps_its_bounds(size, records, seconds) -> None:
    pace = Pace(size, 1, 10**6, 1.0, 3.0)
    after = pace.after(records=records, seconds=seconds)
    assert 1 <= after.batch_records <= 10**6
    assert size // 2 <= after.batch_records <= 2 * size
    assert (after.most, after.target_s) == (pace.most, pace.target_s)


def test_it_settles_at_the_target() -> None:
    pace = Pace(1_000, 1, 10**6, 0.5, 1.5)
    for _ in range(20):
        pace = pace.after(records=pace.batch_records, seconds=pace.batch_records / 100_000)
    assert 45_000 <= pace.batch_records <= 55_000


def test_it_never_falls_below_the_least() -> None:
    assert Pace(500, 400, 10**6, 1.0, 3.0).after(records=500, seconds=60).batch_records == 400


def test_a_batch_that_was_not_full_says_nothing() -> None:
    pace = Pace(1_000, 1, 10**6, 1.0, 3.0)
    assert pace.after(records=10, seconds=0.1) == pace


def test_what_lags_alone_takes_longer_batches_and_what_keeps_up_does_not():
    pace = Pace(1_000, 1, 10**6, 1.0, 3.0)
    assert pace.after(records=1_000, seconds=1.5, behind=True).batch_records == 2_000
    assert pace.after(records=1_000, seconds=6.0, behind=True).batch_records == 500
    assert (
        pace.after(records=800, seconds=1.5, behind=True).batch_records
        == pace.after(records=800, seconds=1.5).batch_records
    )
