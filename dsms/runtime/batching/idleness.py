"""Idleness: when a silent partition may no longer hold the frontier, as a pure decision.

What is decided is logged as heartbeats before it counts, so a replay repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dsms.model.objects import Source
from dsms.runtime.lanes.manifest import Position
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING


@dataclass(frozen=True)
class Silence:
    """A source as seen now: where its leading lane stands, the ends of its partitions, and how long each is silent."""

    positions: Mapping[int, Position]
    ends: Mapping[int, int]
    silent_ms: Mapping[int, float]
    #: How far the other sources are that some query reads together with this one.
    others: int = BEGINNING


def idle_heartbeats(source: Source, seen: Silence) -> dict[int, Heartbeat]:
    """The heartbeats to log now: a partition that is read to its end and silent for the declared time is moved up.

    While other partitions still speak it moves to the slack below the greatest instant seen. When all are silent, it
    moves past that instant, and along with the other sources of the queries that read it.
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
