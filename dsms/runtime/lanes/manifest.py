"""The manifest of an epoch: all that recovery needs in addition to the logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from zlib import crc32

import msgspec

from dsms.model.objects import Source
from dsms.planner.physical.lane import Lane
from dsms.runtime.stages.stored_state import Names, all_names
from operators.core.clock import PartitionClock
from operators.core.decoding import Int64, Malformed, Natural, decoded
from operators.core.delta import BEGINNING
from operators.core.ordering import Ordering
from operators.core.run import hashing

#: The version of the stored format and of the names in it. State of another version is rebuilt from the logs.
FORMAT = 6
_CHECK = re.compile(rb',"check":"([0-9a-f]{8})"}$')

#: A source (by id) and a partition of its topic.
SourcePartition = tuple[str, int]


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The position of a lane in a source partition: the next offset; the frontier and the greatest instant (`high`)
    before it; and the states of the constraints on the order of records."""

    offset: Natural
    frontier: Int64 = BEGINNING
    high: Int64 = BEGINNING
    orders: tuple[Ordering, ...] = ()

    @property
    def clock(self) -> PartitionClock:
        """The partition's clock."""
        return PartitionClock(self.frontier, self.high, self.orders)


#: Positions by source and partition.
Positions = dict[str, dict[int, Position]]


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """The elements that an epoch has put into a queue: the positions up to which they were read, and their total size
    on all targets."""

    epoch: Natural
    upto: Positions
    rows: Natural
    bytes: Natural


class Queue(msgspec.Struct, frozen=True):
    """The segments that wait before a stage, the oldest first, and the positions up to which the stage has processed
    its input."""

    done: Positions
    segments: list[Segment]


class LaneManifest(msgspec.Struct, frozen=True):
    """The progress of a lane after an epoch: its queries, its positions, the names of its runs (stored pieces of state)
    on each target, and the queues of its stages. Queued elements are stored as runs, too."""

    queries: tuple[str, ...]
    positions: Positions
    runs: list[Names]
    queues: dict[int, Queue] = {}
    #: The instant from which on the state is what it would be from the beginning of the logs; None: it already is.
    exact_from: int | None = None

    @property
    def places(self) -> dict[SourcePartition, Position]:
        """The positions by source and partition."""
        return {(source, partition): at for source, parts in self.positions.items() for partition, at in parts.items()}

    def done(self, stage: int) -> Positions:
        """The positions up to which a stage has processed its input: those of the last stage with a queue, at or before
        this stage."""
        queue = max((number for number in self.queues if number <= stage), default=None)
        return self.positions if queue is None else self.queues[queue].done

    def frontiers(self, sources: Mapping[int, Source], stage: int = 0) -> dict[int, int]:
        """The frontiers of the sources, by number, up to which a stage has processed its input; stage 0 reads."""
        return frontiers_of(self.done(stage), sources)

    @property
    def exact(self) -> bool:
        """Whether the state is what it would be from the beginning of the logs."""
        return self.exact_from is None or all(at.frontier >= self.exact_from for at in self.places.values())

    def names(self) -> set[str]:
        """The names of all runs."""
        return {name for names in self.runs for name in all_names(names)}


def frontiers_of(positions: Positions, sources: Mapping[int, Source]) -> dict[int, int]:
    """The frontier of each source, the least of its partitions, by the source's number."""
    return {number: min(at.frontier for at in positions[source.id].values()) for number, source in sources.items()}


class Manifest(msgspec.Struct, frozen=True):
    """The progress of a fragment after an epoch. State belongs to a number of targets and to a hash function. A
    fragment continues with the number of its state, whatever number its executor is configured with."""

    epoch: Natural = 0
    plan_version: Natural = 0
    lanes: dict[str, LaneManifest] = {}
    targets: int = 0
    hashing: str = msgspec.field(default_factory=hashing)
    format: int = FORMAT
    #: The progress of queries that have moved to other fragments, by id, until these have taken it over.
    left: dict[str, LaneManifest] = {}

    @property
    def queries(self) -> frozenset[str]:
        """The queries of all lanes."""
        return frozenset(query for lane in self.lanes.values() for query in lane.queries)

    def names(self) -> set[str]:
        """The names of all runs."""
        return {name for lane in (*self.lanes.values(), *self.left.values()) for name in lane.names()}

    def why_unusable(self, targets: int | None = None) -> str | None:
        """Why the state is not usable, so that it is rebuilt from the logs; None if it is. With `targets`, it must have
        been stored for this number of targets.

        >>> Manifest(targets=2).why_unusable(), Manifest(targets=2).why_unusable(3)
        (None, 'it was stored for 2 targets, not 3')
        >>> Manifest(targets=2, format=1).why_unusable(2)
        'it was stored in format 1, not 6'
        """
        if self.format != FORMAT:
            return f"it was stored in format {self.format}, not {FORMAT}"
        if self.hashing != (present := hashing()):
            return f'it is sorted by the hash function "{self.hashing}", not "{present}"'
        if targets is not None and self.targets != targets:
            return f"it was stored for {self.targets} targets, not {targets}"
        if any(len(lane.runs) != self.targets or not lane.queries for lane in self.lanes.values()):
            return "a lane has no queries, or lacks the runs of a target"
        return None

    def encode(self) -> bytes:
        """As JSON. The last member is a checksum of all text before it."""
        body = msgspec.json.encode(self)[:-1]
        return body + b',"check":"%08x"}' % crc32(body)


def read_manifest(body: bytes | None) -> Manifest | None:
    """Decodes a manifest; an empty one if `body` is empty. None if it is unreadable, because it is damaged or because
    another version of dsms or another program wrote it; the state is then rebuilt. Earlier versions wrote no checksum.

    >>> read_manifest(b'{"epoch": "?"}'), read_manifest(None) == Manifest()
    (None, True)
    >>> read_manifest(Manifest(epoch=8).encode().replace(b"8", b"9", 1))
    """
    if body and (check := _CHECK.search(body)) and int(check[1], 16) != crc32(body[: check.start()]):
        return None
    try:
        manifest: Manifest = decoded(body, Manifest) if body else Manifest()
        return manifest
    except Malformed:
        return None


def first_position(source: Source, partition: int) -> Position:
    """The position of a lane that has read nothing of a partition. A partition that was added to the topic later begins
    at the instant from which on its records are accepted."""
    return Position(source.start.get(partition, 0), source.added_partitions.get(partition, BEGINNING))


def with_added_partitions(progress: LaneManifest, sources: Mapping[str, Source]) -> LaneManifest:
    """The progress, completed by the partitions that were added to the sources' topics since. They do not hold back any
    frontier: all instants that the lane has passed are below the instants at which these partitions begin."""
    if all(
        len(parts) >= len(sources[name].partitions_read)
        for name, parts in progress.positions.items()
        if name in sources
    ):
        return progress

    def completed(positions: Positions) -> Positions:
        return {
            name: {**{part: first_position(sources[name], part) for part in sources[name].partitions_read}, **parts}
            if name in sources
            else parts
            for name, parts in positions.items()
        }

    queues = {
        stage: Queue(
            completed(queue.done),
            [msgspec.structs.replace(segment, upto=completed(segment.upto)) for segment in queue.segments],
        )
        for stage, queue in progress.queues.items()
    }
    return msgspec.structs.replace(progress, positions=completed(progress.positions), queues=queues)


def beginning(lane: Lane, targets: int) -> LaneManifest:
    """The progress of a lane that has read nothing."""
    positions = {
        source.id: {partition: first_position(source, partition) for partition in source.partitions_read}
        for source in lane.sources.values()
    }
    return LaneManifest(tuple(output.id for output in lane.outputs), positions, [{} for _ in range(targets)])
