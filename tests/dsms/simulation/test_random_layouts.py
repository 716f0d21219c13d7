"""Drawn faults are aimed at something that the layout has, and each kind is drawn."""

from __future__ import annotations

from random import Random

import pytest

from connectors.simulation.faults import KINDS, Fault
from dsms.simulation.history import History, Layout
from dsms.simulation.random_layouts import random_faults, random_layout
from dsms.simulation.world import World

#: The kinds that only tests of disks use.
_NOT_DRAWN = {"directory lost"}


def test_faults_have_victims_and_every_kind_is_drawn() -> None:
    drawn = set()
    for seed in range(300):
        chance = Random(seed)
        layout = random_layout(chance)
        known = {"", "coordinator"}
        known |= {f"executor-{number}" for number in range(1, layout.executors + 1)}
        known |= {f"kafka-{number}" for number in range(1, layout.brokers + 1)}
        faults = list(random_faults(layout, chance, 30.0))
        assert len(faults) <= 8
        assert {fault.target for fault in faults} <= known
        assert all(0.5 <= fault.at_s <= 30.0 for fault in faults)
        drawn |= {fault.kind for fault in faults}
    assert drawn == set(KINDS) - _NOT_DRAWN


def test_a_seed_determines_layout_and_faults() -> None:
    first, second = (Random(5), Random(5))
    layout = random_layout(first)
    assert layout == random_layout(second)
    assert list(random_faults(layout, first, 30.0)) == list(random_faults(layout, second, 30.0))


def test_a_fault_is_aimed_at_something_that_exists() -> None:
    fault = Fault(1.0, "leader moves", "broker-1")
    history = History(1, {}, (), (), (fault,), Layout(executors=1, brokers=1))
    with pytest.raises(ValueError, match='nothing is named "broker-1"') as caught:
        World(history)
    assert str(caught.value).endswith("have: coordinator, executor-1, kafka-1")
