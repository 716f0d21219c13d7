"""The state of a fragment that the batch planner needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connectors.kafka.client.config import KafkaSettings
from dsms.planner.physical.lane import Lane
from dsms.runtime.batching.batch_size import equal_part
from dsms.runtime.lanes.manifest import Position, SourcePartition
from operators.streams.preferred_values import Fraction


@dataclass(frozen=True)
class PlannerInput:
    """The lanes of a revision; the positions of the lanes that run; in `reads` the lanes that read; the most records of
    the next batch; in `lanes_to_wake` the lanes that work on their queues even if nothing is read."""

    revision: int
    plan_version: int
    #: The number of targets of the exchanges.
    targets: int
    lanes: Mapping[str, Lane]
    positions: dict[str, dict[SourcePartition, Position]]
    reads: frozenset[str]
    batch_records: int
    #: The most records of a batch while all running lanes lag behind.
    behind_records: int
    lanes_to_wake: tuple[str, ...]
    source_tasks: int
    kafka: KafkaSettings
    registry_url: str
    cluster: str
    fragment: str
    #: The wanted settings of queries: the rates of shedding, and the sizes of windows.
    settings: Mapping[str, Fraction] = field(default_factory=dict)
    #: The sources from which nothing is read for now.
    suspended_sources: frozenset[str] = frozenset()
    #: The records that statements have skipped, as offsets by source partition.
    skipped: Mapping[SourcePartition, tuple[int, ...]] = field(default_factory=dict)
    #: The source partitions whose next record waits, for its schema for example, with its offset.
    waiting_records: Mapping[SourcePartition, int] = field(default_factory=dict)
    #: The sources, by id, of each query that needs this fragment and others.
    sources_of_readers: frozenset[frozenset[str]] = frozenset()
    #: The mean number of rows in a record of a link, by source partition.
    link_rows: Mapping[SourcePartition, float] = field(default_factory=dict)
    #: The directory of large frames, if all workers are on one machine.
    frames: Path | None = None
    #: Whether the last batch was read but not used, so that this one begins where that one began.
    repeats_last: bool = False
    #: The least time from the beginning of one batch to that of the next, in seconds, unless there is a backlog.
    trigger_interval_s: float = 0.0

    @property
    def read_again(self) -> frozenset[SourcePartition]:
        """The partitions in which the last batch was not read to its end, or was not used."""
        every = (place for places in self.positions.values() for place in places) if self.repeats_last else ()
        return frozenset((*self.waiting_records, *every))

    def limit(self, waiting: int) -> int:
        """How many of the `waiting` unread records the next batch may hold."""
        if waiting <= self.batch_records:
            return self.batch_records
        return equal_part(waiting, self.behind_records)
