"""The planner of batches after it was closed."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.alarms import Alarms
from connectors.kafka.client.config import KafkaSettings
from dsms.runtime.batching.planner import BatchPlanner
from dsms.runtime.batching.planner_input import PlannerInput
from operators.core.errors import ExternalError
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.pure_executor import start

SQL = "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY NULL; CREATE QUERY Q AS SELECT STREAMED k FROM S"


def test_a_planner_that_was_closed_makes_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating a log would fence the next owner of the fragment, which has already started."""
    revision = start(apply_all(SQL, environment=FakeEnvironment({"t": {0: 0}}))[0], 1)
    positions = {lane: lane_manifest.places for lane, lane_manifest in revision.manifest.lanes.items()}
    control = PlannerInput(
        revision.number,
        1,
        1,
        revision.lanes,
        positions,
        frozenset(positions),
        1,
        1,
        (),
        1,
        KafkaSettings("127.0.0.1:1"),
        "",
        "local",
        "main",
        frames=Path("nowhere"),
    )
    planner = BatchPlanner(lambda: control, Alarms())
    planner.close()
    for ask in (planner.initial, lambda: planner.tasks({"at": {}}, {"at": {}})):
        with pytest.raises(ExternalError, match="^the fragment was stopped$"):
            ask()
