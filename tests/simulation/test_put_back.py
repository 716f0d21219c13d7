"""Simulation finds faults that the product has had or guards against: seeds that show them."""

from __future__ import annotations

import pytest

from dsms.simulation.run import run
from tests.simulation.draw import drawn
from tests.simulation.put_back import problems_with
from tests.support.pool_thread import on_pool_thread

#: A seed whose history fails with the fault, for each fault of which one is known.
SEEDS = {"waiting sources": 22, "unlogged heartbeats": 6, "unread commits": 3}


@pytest.mark.parametrize("fault", SEEDS)
def test_a_fault_is_found(fault: str) -> None:
    history = drawn(SEEDS[fault]).history
    assert on_pool_thread(lambda: run(history).problems) == ()
    assert on_pool_thread(lambda: problems_with(fault, history)) != ()
