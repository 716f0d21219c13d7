"""What the planner of batches is to know of a fragment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connectors.kafka.config import KafkaSettings
from dsms.physical.lane import Lane
from dsms.runtime.batching.batch_size import equal_part
from dsms.runtime.lanes.manifest import Position, SourcePartition


@dataclass(frozen=True)
class PlannerInput:
    """The lanes of a revision, where each that runs stands, which of them read, how large the next batch may be, and
    which lanes have something to do even if nothing is read."""

    revision: int
    plan_version: int
    #: The partitions of the exchanges.
    targets: int
    lanes: Mapping[str, Lane]
    positions: dict[str, dict[SourcePartition, Position]]
    reads: frozenset[str]
    batch_records: int
    #: How large it may be where it cannot hold all there is.
    behind_records: int
    wakes: tuple[str, ...]
    source_tasks: int
    kafka: KafkaSettings
    registry_url: str
    cluster: str
    fragment: str
    #: The part of the records that is to stay, of queries whose input is shed.
    rates: Mapping[str, float] = field(default_factory=dict)
    #: Where large frames go, if all workers are on one machine.
    frames: Path | None = None

    def limit(self, waiting: int) -> int:
        """How many of the records that wait the next batch may hold."""
        if waiting <= self.batch_records:
            return self.batch_records
        return equal_part(waiting, self.behind_records)
