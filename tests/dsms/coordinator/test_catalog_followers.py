"""When executors count as having halted queries: only what they report, or a long silence, shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from dsms.coordinator.watcher.executors import CatalogFollowers
from dsms.placement.leases import RECOVERING, RUNNING, ExecutorStatus
from operators.core.errors import ExternalError

#: Stands in for the time after which a fragment without a report counts as run by none.
ABSENT_S = 0.4


class Reports:
    """The reports of executors, which a test changes at instants."""

    def __init__(self, *steps: tuple[float, Mapping[str, ExecutorStatus] | None]) -> None:
        self._begun, self._steps = time.monotonic(), steps

    def __call__(self) -> Mapping[str, ExecutorStatus]:
        now = time.monotonic() - self._begun
        reports = [reports for since, reports in self._steps if since <= now][-1]
        if reports is None:
            raise ExternalError("redis is away")
        return reports


def running(version: int, *fragments: str, state: str = RUNNING) -> dict[str, ExecutorStatus]:
    return {"e": ExecutorStatus(state, version, fragments=dict.fromkeys(fragments, state))}


def halted(reports: Reports, *, moving: bool = False) -> tuple[bool, float]:
    """Whether fragment 0 has halted at version 7, and how long that took to see."""
    begun = time.monotonic()
    followers = CatalogFollowers(reports, halt_s=1.2, absent_s=ABSENT_S)
    return followers.await_halted(7, ["0"], moving=moving), time.monotonic() - begun


def test_an_executor_that_has_not_reported_for_a_moment_is_waited_for() -> None:
    """Redis has lost the reports; the executor still runs the former version, and reports that a little later."""
    done, seconds = halted(Reports((0.0, {}), (0.2, running(6, "0")), (0.9, running(7, "0"))))
    assert done and seconds >= 0.9


def test_a_fragment_that_nobody_reports_counts_as_halted_after_a_while() -> None:
    done, seconds = halted(Reports((0.0, {})))
    assert done and seconds >= ABSENT_S
    done, seconds = halted(Reports((0.0, running(7, "1"))))
    assert done and seconds >= ABSENT_S


@pytest.mark.parametrize("moving", [False, True])
def test_an_executor_that_follows_is_seen_at_once(moving: bool) -> None:
    done, seconds = halted(Reports((0.0, running(7, "0", "1"))), moving=moving)
    assert done and seconds < ABSENT_S


@pytest.mark.parametrize(
    "reports",
    [
        [(0.0, running(6, "0"))],
        [(0.0, running(6, "0", state=RECOVERING))],
        [(0.0, None)],
        [(0.0, {}), (0.2, running(6, "0")), (0.5, {}), (0.8, running(6, "0"))],
    ],
)
def test_no_executor_that_is_behind_or_unknown_counts_as_halted(
    reports: list[tuple[float, Mapping[str, ExecutorStatus] | None]],
) -> None:
    assert not halted(Reports(*reports))[0]


def test_a_moving_query_waits_until_its_fragment_runs() -> None:
    assert not halted(Reports((0.0, {})), moving=True)[0]
