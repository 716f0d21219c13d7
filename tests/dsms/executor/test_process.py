"""When an executor without a fragment warms up its Spark session."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from connectors.kafka.client.config import KafkaSettings
from dsms.executor import process
from dsms.executor.process import ExecutorProcess
from dsms.placement.leases import Assignment
from dsms.runtime.settings import ExecutorSettings
from dsms.scheduling.tuning import Bounds

#: The number of turns without a fragment before an executor warms up.
IDLE = 25


class Cluster:
    """The state of a cluster that assigns a fragment to the executor, or none."""

    assigned = False

    def assignments(self) -> bytes | None:
        return msgspec.json.encode({"0": Assignment("executor-1", 7)}) if self.assigned else None

    def catalog(self) -> bytes | None:
        return None

    def place(self, name: str) -> str:
        return name


class StandingRunner(SimpleNamespace):
    """A runner that does nothing."""

    def turn(self, lease: int, catalog: object) -> None:
        """Does nothing."""

    def tune(self, bounds: Bounds) -> None:
        """Does nothing."""

    def halt(self) -> None:
        """Does nothing."""


def test_executor_warms_up_only_after_consecutive_idle_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cluster, warmed = Cluster(), []
    settings = ExecutorSettings(KafkaSettings("127.0.0.1:1"), "redis://127.0.0.1:1", "", tmp_path)
    monkeypatch.setattr(process, "ClusterState", lambda *_: cluster)
    monkeypatch.setattr(process, "Reporter", lambda *_: SimpleNamespace(bounds=settings.bounds))
    monkeypatch.setattr(process, "Runner", lambda *_: StandingRunner())
    monkeypatch.setattr(process, "warm_up", lambda *_: warmed.append(cluster.assigned))
    spark: Any = None
    executor = ExecutorProcess(settings, lambda: spark, lambda _: spark, threading.Event())
    runners: dict[str, Any] = {}

    def turns(count: int, *, assigned: bool) -> int:
        """Runs turns; returns how often the executor warmed up in them."""
        cluster.assigned = assigned
        before = len(warmed)
        for _ in range(count):
            executor._turn(spark, runners)
        return len(warmed) - before

    assert turns(IDLE - 1, assigned=False) == 0
    assert turns(3, assigned=True) == 0
    assert turns(IDLE - 1, assigned=False) == 0, "the turns before the fragment do not count"
    assert turns(1, assigned=False) == 1
    assert turns(3, assigned=True) == 0
    assert turns(2 * IDLE, assigned=False) == 1
