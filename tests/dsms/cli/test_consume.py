"""`dsms consume`: when following ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from connectors.kafka.client.topics import Partition
from connectors.kafka.logs.follow import Arrival, Follower, Pause
from dsms.cli import consume
from dsms.cli.consume import Limits, limited


class Log:
    """A topic with one partition, with changes at the given instants and pauses after them."""

    def __init__(self, *instants: int | None) -> None:
        self._instants = instants
        self._read = 0

    def arrivals(self) -> Iterator[Arrival | Pause]:
        for offset, ts in enumerate(self._instants):
            self._read = offset + 1
            yield Arrival("+", None, b"{}", ts, 0, offset)
        for _ in range(10):
            yield Pause.IDLE

    def ends(self) -> dict[Partition, int]:
        """The present end: the record read last is the last one published so far."""
        return {("t", 0): self._read}

    def reached(self, ends: dict[Partition, int]) -> bool:
        return self._read >= ends["t", 0]


def shown(log: Log, until: int, frontier: int | None, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    monkeypatch.setattr(consume, "FRONTIER_EVERY_S", 0.0)
    arrivals = limited(cast("Follower", cast("Any", log)), Limits(until=until), lambda: frontier)
    return [arrival.ts for arrival in arrivals]


@pytest.mark.parametrize("until", [-5, 0])
def test_an_instant_up_to_zero_ends_as_any_other(until: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants may be negative. A change below `until` does not end the command."""
    instants = [until - 9, None, until - 3, until - 1]
    assert shown(Log(*instants), until, None, monkeypatch) == instants


def test_a_later_instant_or_the_frontier_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Log(-9, 5, -8), 0, None, monkeypatch) == [-9]
    assert shown(Log(-9, -8), 0, 0, monkeypatch) == [-9]
    assert shown(Log(-9, -8), 0, -1, monkeypatch) == [-9, -8]
