"""An instant may be written as a number and in ISO 8601; what lies between two milliseconds is rounded up."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest

from dsms.model.instants import Instant, given_instant
from operators.core.delta import BEGINNING
from operators.core.errors import UserError

_DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        (-3, -3),
        (np.int64(4), 4),
        ("1500", 1500),
        ("1970-01-02", _DAY_MS),
        ("1970-01-02T00:00:00Z", _DAY_MS),
        ("1970-01-02 02:00:00+02:00", _DAY_MS),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31T23:59:59.999999Z", 0),
        (date(1970, 1, 2), _DAY_MS),
        (datetime(1970, 1, 1, 0, 0, 0, 1), 1),  # noqa: DTZ001 (a time without a zone is in UTC)
        (datetime(1970, 1, 1, 1, tzinfo=UTC), 3_600_000),
        (datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1))), -3_600_000),
    ],
)
def test_numbers_and_times(value: Instant, instant: int) -> None:
    assert given_instant(value) == instant


@pytest.mark.parametrize("value", ["", "soon", "2026-13-01", "1e3", "9" * 30, 2**62, -(2**62), 1.5, True, None])
def test_all_else_is_refused_with_what_is_expected(value: Instant) -> None:
    with pytest.raises(UserError, match="is not an instant") as refused:
        given_instant(value)
    assert "2026-05-01T12:00:00Z" in str(refused.value.hint)


def test_the_range_is_that_of_the_instants_of_records() -> None:
    assert given_instant(BEGINNING + 1) == BEGINNING + 1
    assert given_instant(str(-BEGINNING - 1)) == -BEGINNING - 1
    for outside in (BEGINNING, -BEGINNING):
        with pytest.raises(UserError, match="is not an instant"):
            given_instant(outside)
