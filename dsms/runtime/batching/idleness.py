"""Idleness: when a silent partition no longer holds back the frontier, as a pure decision.

The decision is logged as heartbeats before it takes effect, so a replay repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dsms.model.objects import Source
from dsms.runtime.lanes.manifest import Position
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING


@dataclass(frozen=True)
class Silence:
    """A source at a moment: the positions of its leading lane, the ends of its partitions, and how long each is
    silent."""

    positions: Mapping[int, Position]
    ends: Mapping[int, int]
    silent_ms: Mapping[int, float]
    #: The greatest frontier of the other sources that lanes read together with this one.
    others: int = BEGINNING


def may_be_idle(source: Source, silent_ms: Iterable[float]) -> bool:
    """Whether a partition has been silent for the time that the source declares; never where it declares none."""
    return source.idle_ms is not None and any(silent >= source.idle_ms for silent in silent_ms)


def idle_heartbeats(source: Source, seen: Silence) -> dict[int, Heartbeat]:
    """The heartbeats to log now, which advance idle partitions: those read to their end and silent for the declared
    time.

    While other partitions have records, idle ones advance to the greatest instant seen minus the slack. When all are
    idle, they advance beyond that instant, and with the other sources of the lanes that read this one.
    """
    if source.idle_ms is None:
        return {}
    idle = [
        partition
        for partition, position in seen.positions.items()
        if position.offset == seen.ends.get(partition) and seen.silent_ms.get(partition, 0.0) >= source.idle_ms
    ]
    high = max((position.high for position in seen.positions.values()), default=BEGINNING)
    if max(high, seen.others) == BEGINNING:
        return {}
    past = BEGINNING if high == BEGINNING else high + 1
    time = max(past, seen.others) if len(idle) == len(seen.positions) else high - source.slack
    return {
        partition: Heartbeat(seen.positions[partition].offset, time)
        for partition in idle
        if seen.positions[partition].frontier < time
    }
