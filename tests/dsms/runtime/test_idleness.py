"""When a silent partition stops holding the frontier."""

from __future__ import annotations

import msgspec
import pytest

from dsms.model.objects import Source
from dsms.runtime.batching.idleness import Silence, idle_heartbeats
from dsms.runtime.lanes.manifest import Position
from operators.core.clock import Heartbeat
from tests.support.fake_environment import apply_all

FOUND = apply_all("REGISTER SOURCE T (k INT) FROM t SLACK 10 IDLE AFTER 2 SECONDS")[0].find("T")
assert isinstance(FOUND, Source)
SOURCE = FOUND
AT = {0: Position(7, 90, 100), 1: Position(3, 40, 50)}


@pytest.mark.parametrize(
    ("silent", "ends", "expected"),
    [
        ({0: 0, 1: 1_999}, {0: 7, 1: 3}, {}),
        ({0: 0, 1: 2_000}, {0: 7, 1: 3}, {1: Heartbeat(3, 90)}),
        ({0: 0, 1: 2_000}, {0: 7, 1: 4}, {}),
        ({0: 2_000, 1: 0}, {0: 7, 1: 3}, {}),
        ({0: 2_000, 1: 2_000}, {0: 7, 1: 3}, {0: Heartbeat(7, 101), 1: Heartbeat(3, 101)}),
        ({}, {0: 7, 1: 3}, {}),
    ],
    ids=["not yet", "one is silent", "not read to its end", "the leader holds nothing", "all are silent", "unknown"],
)
def test_promises(silent, ends, expected) -> None:
    assert idle_heartbeats(SOURCE, Silence(AT, ends, silent)) == expected


def test_never_and_nothing_seen() -> None:
    seen = Silence(AT, {0: 7, 1: 3}, {0: 9e9, 1: 9e9})
    assert idle_heartbeats(msgspec.structs.replace(SOURCE, idle_ms=None), seen) == {}
    assert idle_heartbeats(SOURCE, Silence({0: Position(0)}, {0: 0}, {0: 9e9})) == {}
    moved = {p: Position(at.offset, 101, at.high) for p, at in AT.items()}
    assert idle_heartbeats(SOURCE, Silence(moved, {0: 7, 1: 3}, {0: 9e9, 1: 9e9})) == {}
