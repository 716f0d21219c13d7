"""The simulated store of state obeys the laws of all stores, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from connectors.memory.answers import MemoryAnswers
from connectors.simulation.faults import FaultPlan
from connectors.simulation.scheduler import EPOCH_S, Process, Scheduler
from connectors.simulation.state.store import SimulatedStore
from connectors.simulation.threads import ThreadPool
from connectors.simulation.virtual import virtual
from connectors.state.store import StateStore
from tests.connectors.simulation.state_runs import run_as, scheduling
from tests.support.state_laws import LAWS, StateUnderTest


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Callable[[StateUnderTest], None], tmp_path: Path) -> None:
    with scheduling() as scheduler, virtual(scheduler):
        state = state_under_test(scheduler, tmp_path)
        run_as(scheduler, Process("executor-1"), lambda: law(state), 1e6)
        assert not scheduler.failed


def state_under_test(scheduler: Scheduler, directory: Path) -> StateUnderTest:
    store = SimulatedStore(scheduler, FaultPlan(), "main")

    def opened() -> StateStore:
        return store.address().open()

    def clock() -> float:
        return EPOCH_S + scheduler.now

    def answers(most: int) -> MemoryAnswers:
        return MemoryAnswers(clock, most)

    pool = partial(ThreadPool, scheduler)
    return StateUnderTest(opened, scheduler.sleep, store.damage_run, answers, directory, clock, pool)
