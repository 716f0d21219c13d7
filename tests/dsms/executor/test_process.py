"""When an executor without a fragment warms up its Spark session, and what its other threads see of its fragments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from connectors.kafka.client.config import KafkaSettings
from connectors.memory.store import MemoryState
from connectors.state.cluster import ClusterState
from dsms.executor import process
from dsms.executor.process import ExecutorProcess
from dsms.local.waiting import wait_until
from dsms.placement.leases import Assignment, ExecutorStatus
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
    engine: Any = SimpleNamespace(warm_up=lambda _: warmed.append(ClusterState(state.documents()).assignments()))
    executor = ExecutorProcess(settings, lambda: engine, threading.Event())
    runners: dict[str, Any] = {}

    def turns(count: int, *, assigned: bool) -> int:
        """Runs turns; returns how often the executor warmed up in them."""
        ClusterState(state.documents()).set_assignments(
            msgspec.json.encode({"0": Assignment("executor-1", 7)} if assigned else {})
        )
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


class IteratingReporter:
    """Iterates over the runners while the executor gives a fragment up."""

    def __init__(self, settings: ExecutorSettings, state: MemoryState, runners: Callable[[], Any]) -> None:
        self.tunable, self._state, self._runners = settings.tunable, state, runners
        self.ended: list[int] = []

    def run(self, stopping: threading.Event) -> None:
        """Gives the fragment up in the middle of an iteration; then stops the executor."""
        try:
            assert wait_until(lambda: len(self._runners()) == 1, 10)
            runners = iter(self._runners().values())
            runner = next(runners)
            ClusterState(self._state.documents()).set_assignments(msgspec.json.encode({}))
            assert wait_until(lambda: runner.released, 10)
            self.ended.append(len(list(runners)))
        finally:
            stopping.set()


def test_threads_that_iterate_over_fragments_are_not_disturbed_when_one_leaves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state, reporters = MemoryState(), list[IteratingReporter]()
    monkeypatch.setitem(STORES, "test", lambda *_: state)  # type: ignore[arg-type]
    settings = ExecutorSettings(KafkaSettings("127.0.0.1:1"), "test://", "", tmp_path)

    def reporter(settings: ExecutorSettings, _: object, runners: Callable[[], Any]) -> IteratingReporter:
        reporters.append(IteratingReporter(settings, state, runners))
        return reporters[-1]

    class Released(StandingRunner):
        def release(self, reason: str) -> None:
            self.released = True

    monkeypatch.setattr(process, "Reporter", reporter)
    monkeypatch.setattr(process, "engine_after_failures", lambda engine, _: engine)
    standing = SimpleNamespace(state="running", reason="", plan_version=0, lanes={}, measured=None)
    monkeypatch.setattr(process, "Runner", lambda *_: Released(released=False, status=standing))
    monkeypatch.setattr(process, "executor_status", lambda _: ExecutorStatus("running"))
    ClusterState(state.documents()).set_assignments(msgspec.json.encode({"0": Assignment("executor-1", 7)}))
    engine: Any = SimpleNamespace(warm_up=lambda _: None)
    ExecutorProcess(settings, lambda: engine, threading.Event()).run()
    assert reporters[0].ended == [0]
