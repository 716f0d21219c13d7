"""When an executor without a fragment warms up its Spark session."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.memory.store import MemoryState
from dsms.executor import process
from dsms.executor.process import ExecutorProcess
from dsms.placement.leases import Assignment
from dsms.runtime.settings import ExecutorSettings
from dsms.scheduling.tuning import TunableSettings
from dsms.state.stores import STORES

#: The number of turns without a fragment before an executor warms up.
IDLE = 25


class StandingRunner(SimpleNamespace):
    """A runner that does nothing."""

    def turn(self, lease: int, catalog: object) -> None:
        """Does nothing."""

    def tune(self, tunable: TunableSettings) -> None:
        """Does nothing."""

    def release(self, reason: str) -> None:
        """Does nothing."""


def test_an_executor_warms_up_after_idle_turns_in_a_row_and_never_beside_a_fragment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state, warmed = MemoryState(), list[bytes | None]()
    monkeypatch.setitem(STORES, "test", lambda *_: state)  # type: ignore[arg-type]
    settings = ExecutorSettings(KafkaSettings("127.0.0.1:1"), "test://", "", tmp_path)
    monkeypatch.setattr(process, "Reporter", lambda *_: SimpleNamespace(tunable=settings.tunable))
    monkeypatch.setattr(process, "Runner", lambda *_: StandingRunner())
    engine: Any = SimpleNamespace(warm_up=lambda _: warmed.append(state.cluster().assignments()))
    executor = ExecutorProcess(settings, lambda: engine, threading.Event())
    runners: dict[str, Any] = {}

    def turns(count: int, *, assigned: bool) -> int:
        """Runs turns; returns how often the executor warmed up in them."""
        state.cluster().set_assignments(msgspec.json.encode({"0": Assignment("executor-1", 7)} if assigned else {}))
        before = len(warmed)
        for _ in range(count):
            executor._turn(engine, runners)
        return len(warmed) - before

    assert turns(IDLE - 1, assigned=False) == 0
    assert turns(3, assigned=True) == 0
    assert turns(IDLE - 1, assigned=False) == 0, "the turns before the fragment do not count"
    assert turns(1, assigned=False) == 1
    assert turns(3, assigned=True) == 0
    assert turns(2 * IDLE, assigned=False) == 1
