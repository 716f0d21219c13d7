"""The store of state in memory obeys the laws of all stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.memory.answers import MemoryAnswers
from connectors.memory.store import MemoryState
from connectors.state.store import StateStore
from tests.support.state_laws import LAWS, StateUnderTest


@pytest.fixture
def state(tmp_path: Path) -> StateUnderTest:
    now = [time.time()]

    def pass_time(seconds: float) -> None:
        now[0] += seconds

    store = MemoryState("main", clock=lambda: now[0])

    def opened() -> StateStore:
        return store

    return StateUnderTest(opened, pass_time, store.damage_run, lambda most: MemoryAnswers(most=most), tmp_path)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(state: StateUnderTest, law: Callable[[StateUnderTest], None]) -> None:
    law(state)
    assert list(state.directory.iterdir()) == [], "no file is written"
