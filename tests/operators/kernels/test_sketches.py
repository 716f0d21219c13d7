"""The sketches of distinct values and of percentiles, compared with counts and quantiles of NumPy and Python."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels.distinct_coupons import LEVELS, STANDARD_ERROR, coupons_of, estimates, numbers_of, registers
from operators.kernels.near_values import near_floats, near_integers

ERRORS = st.sampled_from([0.002, 0.01, 0.05, 0.3])


@pytest.mark.parametrize("error", [0.05, 0.2])
@pytest.mark.parametrize("values", [9, 39, 1000, 20_000])
@pytest.mark.parametrize("kind", ["numbers", "floats", "texts", "pairs"])
def test_95_of_100_counts_are_within_the_error(error, values, kind) -> None:
    """60 counts, each of other values: the chance that 11 or more of them are beyond the error is 1 in 2 000."""
    count, beyond = registers(error), 0
    for run in range(60):
        numbers = pl.Series(np.arange(run * values, (run + 1) * values))
        columns = {
            "numbers": [numbers],
            "floats": [numbers * 0.1],
            "texts": [("user " + numbers.cast(pl.String)).alias("x")],
            "pairs": [numbers // 7, numbers % 7],
        }[kind]
        occupied = len(np.unique(coupons_of(columns, count)))
        beyond += abs(int(estimates(np.array([occupied]), count)[0]) - values) > max(1, error * values)
    assert beyond <= 10


def test_the_standard_error_is_that_of_the_paper() -> None:
    count, found = 100, []
    for run in range(300):
        occupied = len(np.unique(coupons_of([pl.Series(np.arange(run * 5000, (run + 1) * 5000))], count)))
        found.append(int(estimates(np.array([occupied]), count)[0]) / 5000 - 1)
    assert np.std(found) == pytest.approx(STANDARD_ERROR / 10, rel=0.15)
    assert abs(np.mean(found)) < 0.015


def test_levels_halve_and_registers_are_even() -> None:
    coupons = coupons_of([pl.Series(np.arange(1 << 16))], 64)
    levels, registers_ = np.bincount(coupons % 64, minlength=LEVELS + 1), np.bincount(coupons // 64)
    assert len(registers_) == 64 and registers_.min() > 900 and registers_.max() < 1150
    assert levels[0] == 0
    assert [int(levels[at]) for at in (1, 2, 3)] == pytest.approx([1 << 15, 1 << 14, 1 << 13], rel=0.03)


def test_equal_values_have_one_number_in_any_type_of_their_kind() -> None:
    zero, other = numbers_of(pl.Series([0.0, -0.0])).tolist()
    assert zero == other
    nan, other = numbers_of(pl.Series([float("nan"), -float("nan")])).tolist()
    assert nan == other
    small, large = (numbers_of(pl.Series([7], dtype=dtype)).tolist() for dtype in (pl.Int8, pl.Int64))
    assert small == large
    for different in (["a", "b"], [True, False], [Decimal("1.5"), Decimal("1.50001")], [b"\xff", b"\xfe"]):
        first, second = numbers_of(pl.Series(different)).tolist()
        assert first != second


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False), min_size=1), ERRORS)
def test_a_near_float_is_within_the_error_and_keeps_the_order(values, error) -> None:
    values = sorted(values)
    near = near_floats(np.array(values), error)
    assert (np.diff(near) >= 0).all()
    for value, other in zip(values, near.tolist(), strict=True):
        assert abs(Fraction(other) - Fraction(value)) <= Fraction(error) * abs(Fraction(value))


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1), ERRORS)
def test_a_near_integer_is_within_the_error_and_keeps_the_order(values, error) -> None:
    values = sorted(values)
    near = near_integers(np.array(values, np.float64), error)
    assert (np.diff(near) >= 0).all()
    for value, other in zip(values, near.tolist(), strict=True):
        assert abs(int(other) - value) <= Fraction(error) * abs(value)


def test_number_of_near_values_is_within_the_bound() -> None:
    near = near_floats(np.geomspace(1, 1e6, 200_000), 0.01)
    assert len(np.unique(near)) <= 692
    assert near_floats(np.array([np.inf, -np.inf, 5e-324]), 0.01).tolist() == [np.inf, -np.inf, 0.0]
    assert np.isnan(near_floats(np.array([np.nan]), 0.01)).all()
