"""Simulation finds faults that the product has had or guards against: seeds that show them."""

from __future__ import annotations

import pytest

from dsms.simulation.run import run
from tests.simulation.draw import drawn
from tests.simulation.put_back import FAULTS, problems_with
from tests.support.pool_thread import on_pool_thread

#: A seed whose history fails with the fault, for each fault.
SEEDS = {
    "late commits": 60,
    "recreated topics": 68,
    "unchecked files": 1082,
    "waiting sources": 27,
    "unlogged heartbeats": 27,
    "unread commits": 21,
    "unused heartbeats": 318,
    "joined versions": 24,
}


def test_each_fault_has_a_seed() -> None:
    assert SEEDS.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", SEEDS)
def test_a_fault_is_found(fault: str) -> None:
    history = drawn(SEEDS[fault]).history
    assert on_pool_thread(lambda: run(history).problems) == ()
    assert on_pool_thread(lambda: problems_with(fault, history)) != ()
