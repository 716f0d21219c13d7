"""Simulation finds faults that the product has had or guards against: seeds that show them."""

from __future__ import annotations

import os

import pytest

from tests.simulation.draw import drawn
from tests.simulation.put_back import FAULTS, problems_of, problems_with, schedules
from tests.support.pool_thread import on_pool_thread

#: A seed whose history fails with the fault in many of its schedules. "unused heartbeats" has none: the one that was
#: known failed in one schedule of ten, and no longer does. `tests/dsms/runtime/test_offsets.py` tests it directly.
SEEDS = {
    "late commits": 60,
    "recreated topics": 68,
    "unchecked files": 28,
    "waiting sources": 27,
    "unlogged heartbeats": 27,
    "unread commits": 21,
    "joined versions": 30,
    "early rates": 44,
    "kept runs": 30,
}
#: Those that are found soon; `make fuzz` tries all.
_QUICK = ("late commits", "recreated topics", "waiting sources", "unread commits", "kept runs")
#: How many schedules of a history are tried, one or two seconds each.
_MOST_SCHEDULES = 60


def test_each_fault_has_a_seed() -> None:
    assert FAULTS.keys() - SEEDS.keys() == {"unused heartbeats"}


@pytest.mark.parametrize("fault", [*SEEDS] if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else _QUICK)
def test_a_fault_is_found(fault: str) -> None:
    tried = schedules(drawn(SEEDS[fault]).history, _MOST_SCHEDULES)
    failing = on_pool_thread(lambda: next((history for history in tried if problems_with(fault, history)), None))
    assert failing is not None, "no schedule shows the fault"
    assert on_pool_thread(lambda: problems_of(failing)) == (), "it fails without the fault as well"
