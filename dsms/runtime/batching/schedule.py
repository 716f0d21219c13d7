"""The decision for the next batch: which lanes read and how much, and which stages work on their queues.

A lane is scheduled as a path of operators: first reading, which includes the source stage, then its target stages. Its
queues are its unread records in Kafka and the segments that wait before its target stages. If a batch can hold all
queued input, all of it goes through the whole path, as under `fifo`; otherwise the policy decides which queues are
served.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from dsms.measurements.progress_chart import Path, PathOperator, remaining
from dsms.measurements.work import VertexMetrics, VertexWork, Work
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.lanes.manifest import Queue, Segment
from dsms.runtime.lanes.revision import Revision
from dsms.runtime.lanes.weights import weight_of
from dsms.runtime.stages.wire import StageServed
from dsms.scheduling.grants import Grant, grants
from dsms.scheduling.policies import Fifo, Policy
from dsms.scheduling.ready import Moment, Past, ReadyQueue

#: A lane and the number of one of its stages; stage 0 reads.
LaneStage = tuple[str, int]
#: A placeholder for the path of a queue of which only the key is used.
_NO_PATH: Path = (PathOperator(0.0, 0.0),)
#: The most work, in batches, that a segment may cause in later stages; nothing is read during this work.
_MAX_BATCHES_AHEAD = 1.0


@dataclass(frozen=True)
class BatchDecision:
    """The number of segments that each stage of a lane takes, the lanes that read, and the most records that they
    read."""

    takes: Mapping[str, Mapping[int, int]]
    reads: frozenset[str]
    records: int


@dataclass(frozen=True)
class Schedule:
    """The scheduling policy, and the measurements by which it decides the next batch. Sizes are in bytes; times such as
    `at` are of one clock."""

    policy: Policy = field(default_factory=Fifo)
    past: Past = field(default_factory=Past)
    #: The measurements of stages: bytes in, bytes out, time.
    costs: Mapping[LaneStage, VertexMetrics] = field(default_factory=dict)
    #: The unread records of each lane, and since when there have been any.
    behind: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    #: When the queued segments arrived, by epoch.
    arrived: Mapping[int, float] = field(default_factory=dict)

    def after(self, epoch: Epoch, revision: Revision, at: float) -> Schedule:
        """The schedule after an epoch of a revision, which ended at the time `at`."""
        waiting = {
            segment.epoch for lane_after in epoch.manifest.lanes.values() for segment in _segments(lane_after.queues)
        }
        arrived = {number: self.arrived.get(number, at) for number in waiting}
        behind = {
            lane: (records, self.behind[lane][1] if self.behind.get(lane, (0, at))[0] else at)
            for lane, records in epoch.measured.behind.items()
        }
        stage_work = _stage_work(epoch, revision)
        costs = self._costs(stage_work, revision, at)
        return replace(self, past=self._past(stage_work, revision), costs=costs, behind=behind, arrived=arrived)

    def decide(self, revision: Revision, lanes: Collection[str], moment: Moment, records: int) -> BatchDecision:
        """The decision for the running lanes of a revision; `records` is the most that a batch may read."""
        waits = any(revision.manifest.lanes[lane].queues for lane in lanes)
        if isinstance(self.policy, Fifo) and not waits:
            return BatchDecision({}, frozenset(lanes), records)
        paths = {lane: path for lane in lanes if (path := self.path(lane, revision)) is not None}
        unknown = {lane: _one_segment_each(revision, lane) for lane in lanes if lane not in paths}
        ready = list(self.ready(revision, paths, moment.now_s))
        if sum(queue.work_s for queue in ready) <= moment.budget_s:
            through = [self._records_through(lane, path, moment) for lane, path in paths.items()]
            return BatchDecision(unknown, frozenset(lanes), min([records, *through]))
        granted = list(self._granted(ready, moment))
        by_stage = {_lane_stage(grant.ready): grant for grant in granted}
        takes = {lane: self._takes(lane, revision, by_stage) for lane in lanes} | unknown
        refused = {lane for lane in lanes if self.behind.get(lane, (0, 0.0))[0] and (lane, 0) not in by_stage}
        reading = [self._records(grant) for grant in granted if _lane_stage(grant.ready)[1] == 0]
        return BatchDecision(takes, frozenset(lanes) - refused, max(1, *reading) if reading else records)

    def waiting_s(self, revision: Revision, lanes: Collection[str], now: float) -> float | None:
        """The seconds of work that wait in the running lanes; None while a lane with input has not been measured."""
        paths = {lane: path for lane in lanes if (path := self.path(lane, revision)) is not None}
        others = set(lanes) - paths.keys()
        if any(self.behind.get(lane, (1, now))[0] or revision.manifest.lanes[lane].queues for lane in others):
            return None
        return sum(queue.work_s for queue in self.ready(revision, paths, now))

    def _granted(self, ready: list[ReadyQueue], moment: Moment) -> Iterator[Grant]:
        """The grants of the policy. A segment that was read is processed as a whole, so a grant to read is limited to
        what later stages can process in `_MAX_BATCHES_AHEAD` batches. Nothing is granted after a limited grant."""
        for grant in grants(self.policy, self.past, ready, moment)[0]:
            after = grant.ready.work_s / grant.ready.size - grant.ready.cost
            most = (
                _MAX_BATCHES_AHEAD * moment.budget_s / after if grant.ready.operator == 0 and after > 0 else grant.size
            )
            yield replace(grant, size=min(grant.size, most))
            if grant.size > most:
                return

    def _records_through(self, lane: str, path: Path, moment: Moment) -> int:
        """The number of records of a lane that can go through its whole path in a batch."""
        return max(1, int(moment.budget_s / max(remaining(path)[0] * self._record_bytes(lane), 1e-9)))

    def _records(self, grant: Grant) -> int:
        return int(grant.size / self._record_bytes(_lane_stage(grant.ready)[0]))

    def _past(self, stage_work: Mapping[LaneStage, Work], revision: Revision) -> Past:
        """The service that queues have received so far, with that of an epoch added. The stages of the epoch, including
        reading, are added in round-robin order."""
        past, last = self.past, self.past.last or ()
        for lane, stage in sorted(stage_work, key=lambda lane_stage: (lane_stage <= last, lane_stage)):
            served = ReadyQueue((lane, stage), _NO_PATH, 0, 1.0, 0.0, lane, weight_of(revision.lanes[lane]))
            past = past.after(served, stage_work[lane, stage].busy_ns / 1e9)
        return past

    def ready(self, revision: Revision, paths: Mapping[str, Path], now: float) -> Iterator[ReadyQueue]:
        """The queues of the lanes whose costs are known."""
        for lane, path in paths.items():
            weight, (records, since) = weight_of(revision.lanes[lane]), self.behind.get(lane, (0, now))
            if records:
                yield ReadyQueue((lane, 0), path, 0, records * self._record_bytes(lane), since, lane, weight)
            for stage, queue in revision.manifest.lanes[lane].queues.items():
                if size := sum(segment.bytes for segment in queue.segments):
                    oldest = min(self.arrived.get(segment.epoch, now) for segment in queue.segments)
                    yield ReadyQueue((lane, stage), path, stage, size, oldest, lane, weight)

    def path(self, lane: str, revision: Revision) -> Path | None:
        """The stages of a lane as operators; None until all of them have been measured."""
        stages = range(revision.lanes[lane].flow.stages + 1)
        measured = [stage_cost for stage in stages if (stage_cost := self.costs.get((lane, stage))) is not None]
        if len(measured) < len(stages):
            return None
        cores = revision.plan.partitions
        return tuple(
            PathOperator((stage_cost.cost or 0.0) / cores, stage_cost.selectivity or 0.0) for stage_cost in measured
        )

    def _record_bytes(self, lane: str) -> float:
        return 1 / (self.costs[(lane, 0)].row_bytes or 1.0)

    def _takes(self, lane: str, revision: Revision, granted: Mapping[LaneStage, Grant]) -> dict[int, int]:
        """The number of segments that each stage takes: as many whole ones as fit its grant, but at least one."""
        queues, takes = revision.manifest.lanes[lane].queues, dict[int, int]()
        for stage in range(1, revision.lanes[lane].flow.stages + 1):
            grant = granted.get((lane, stage))
            sizes = [segment.bytes for segment in queues[stage].segments] if stage in queues else []
            takes[stage] = 0 if grant is None else max(1, bisect_right(list(accumulate(sizes)), grant.size))
        return takes

    def _costs(
        self, stage_work: Mapping[LaneStage, Work], revision: Revision, at: float
    ) -> dict[LaneStage, VertexMetrics]:
        costs = {lane_stage: measured for lane_stage, measured in self.costs.items() if lane_stage[0] in revision.lanes}
        return costs | {
            lane_stage: costs.get(lane_stage, VertexMetrics(at, at)).after(at, 0, work)
            for lane_stage, work in stage_work.items()
        }


def _one_segment_each(revision: Revision, lane: str) -> dict[int, int]:
    """One segment of each queue, so that the costs of the stages are measured, with the empty ones before and after it.
    A queue without elements is not listed: it is processed as a whole, or it would never be empty."""
    takes: dict[int, int] = {}
    for stage, queue in revision.manifest.lanes[lane].queues.items():
        filled = [at for at, segment in enumerate(queue.segments) if segment.bytes]
        if filled:
            takes[stage] = filled[1] if len(filled) > 1 else len(queue.segments)
    return takes


def _stage_work(epoch: Epoch, revision: Revision) -> dict[LaneStage, Work]:
    """The work of the stages that did any in an epoch, counted in bytes instead of rows."""
    by_lane: dict[str, list[VertexWork]] = defaultdict(list)
    for vertex_work in epoch.measured.work:
        by_lane[vertex_work[0]].append(vertex_work)
    done: dict[LaneStage, Work] = {}
    for lane in by_lane.keys() | epoch.measured.served.keys():
        flow = revision.lanes[lane].flow
        first = {flow.keys[vertex] for vertex in flow.by_stage.get(0, ())}
        reading = [work for _, key, _, work in by_lane[lane] if key in first]
        works = _lane_work(reading, epoch.measured.served.get(lane, []))
        done |= {(lane, stage): work for stage, work in works.items()}
    return done


def _lane_work(reading: list[Work], served: list[StageServed]) -> dict[int, Work]:
    """The work of a lane by stage, from the work of its reading vertices and the messages of its target stages."""
    arrived, taken, busy = Counter[int](), Counter[int](), Counter[int]()
    for message in served:
        arrived[message.stage] += message.bytes
        taken[message.stage] += message.taken_bytes
        busy[message.stage] += message.busy_ns
    works = {stage: Work((taken[stage],), arrived[stage + 1], busy[stage]) for stage in taken if taken[stage]}
    records = sum(work.rows_in[0] for work in reading if work.bytes_in)
    if records:
        size = sum(work.bytes_in for work in reading)
        works[0] = Work((size,), arrived[1], sum(work.busy_ns for work in reading), bytes_in=records)
    return works


def _segments(queues: Mapping[int, Queue]) -> Iterator[Segment]:
    return (segment for queue in queues.values() for segment in queue.segments)


def _lane_stage(ready: ReadyQueue) -> LaneStage:
    lane, stage = ready.key
    return str(lane), int(stage)
