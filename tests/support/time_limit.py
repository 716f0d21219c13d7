"""The time that `make test` may take, so that it also ends in time on a slow machine: no test begins after it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import pytest

#: The second since 1970 at which the time is over; not set: there is no limit.
END = "DSMS_TESTS_END"
REASON = "the time that `make test` may take is over: MINUTES=… allows more, and `make integration` has no limit"


def is_over(environment: Mapping[str, str], now: float) -> bool:
    """Whether the time of an environment is over.

    >>> is_over({END: "100"}, 99.9), is_over({END: "100"}, 100.0), is_over({}, 1e12)
    (False, True, False)
    """
    return END in environment and now >= float(environment[END])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skips a test that would begin too late, before its fixtures start any service."""
    if is_over(os.environ, time.time()):
        pytest.skip(REASON)
