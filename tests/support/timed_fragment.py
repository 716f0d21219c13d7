"""A fragment over logs in memory whose stages take given times, on a clock that only its batches move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from connectors.memory.store import MemoryState
from connectors.state.cluster import ClusterState
from connectors.state.store import Claim
from dsms.measurements.work import FragmentMetrics, VertexWork
from dsms.model.catalog import Catalog
from dsms.planner.physical.fragment_plan import plan_fragment
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.batching.schedule import BatchDecision
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.fragment.metadata import Metadata, read_metadata, with_metadata
from dsms.runtime.fragment.state import (
    BatchEnded,
    Commit,
    EpochComputed,
    Event,
    FragmentState,
    KeepMetadata,
    PlanChanged,
    advance,
)
from dsms.runtime.lanes.manifest import read_manifest
from dsms.scheduling.tuning import TunableSettings
from tests.support.pure_executor import World, epoch, publish

#: The seconds that a stage takes for a byte of its input (a record, if it reads), by the name of a lane's first query.
Costs = Callable[[str, int], float]


@dataclass
class TimedFragment:
    """`store` is what survives the process, as Redis does; `now` are seconds since 1970. The clock of the process
    begins at `begun`."""

    world: World
    catalog: Catalog
    tunable: TunableSettings
    costs: Costs
    store: MemoryState = field(default_factory=MemoryState)
    now: float = 1_000.0
    begun: float = 0.0
    #: If given, the seconds for a row at each vertex, by the names of the queries that need it, in place of `costs`.
    vertex_costs: Callable[[frozenset[str]], float] | None = None
    decisions: list[BatchDecision] = field(default_factory=list)
    state: FragmentState = field(init=False)

    def start(self, *, with_stored_metadata: bool = True) -> None:
        """Starts a process, which continues from what is stored."""
        plan, body = plan_fragment(self.catalog, 1), self.store.manifest("0").read()[1]
        manifest = read_manifest(body)
        assert manifest is not None
        size = BatchSize(50, 1, self.tunable.max_batch_records, self.tunable.target_batch_seconds, 3.0)
        manifest = msgspec.structs.replace(manifest, targets=1)
        state = FragmentState(plan, manifest, self.world.published, self.tunable, size, FragmentMetrics(self._clock))
        stored = ClusterState(self.store.documents()).metadata("0")
        if stored is not None and with_stored_metadata:
            state = with_metadata(state, read_metadata(stored), self._clock, self.begun)
        self.state = state
        self._apply(PlanChanged(plan, self._clock))

    def run(self, batches: int) -> None:
        """Runs batches, each of which is committed before the next one."""
        for _ in range(batches):
            revision, started = self.state.revision, self._clock
            decision = self.state.decision
            self.decisions.append(decision)
            done = self._timed(epoch(self.world, revision, decision.records, 2, decision.reads))
            publish(self.world, done)
            self.now += self._seconds(done)
            self._apply(EpochComputed(done, revision))
            self._apply(BatchEnded(done, revision, started, self._clock))

    def run_to_the_end(self) -> None:
        """Runs batches until nothing waits."""
        while any(self.behind.values()) or any(lane.queues for lane in self.state.computed.lanes.values()):
            self.run(1)

    @property
    def behind(self) -> dict[str, int]:
        """The unread records, by the name of a lane's first query."""
        return {self._name(lane): records for lane, (records, _) in self.state.schedule.behind.items()}

    def _seconds(self, done: Epoch) -> float:
        busy = sum(work.busy_ns for _, _, _, work in done.measured.work)
        if self.vertex_costs is None:  # otherwise the work of the vertices includes that of later stages
            busy += sum(each.busy_ns for served in done.measured.served.values() for each in served)
        return busy / 1e9

    @property
    def _clock(self) -> float:
        return self.now - self.begun

    def _apply(self, event: Event) -> None:
        self.state, instructions = advance(event, self.state)
        for instruction in instructions:
            if isinstance(instruction, Commit):
                self.store.manifest("0").commit(Claim(1, 1), instruction.epoch.manifest.encode())
            elif isinstance(instruction, KeepMetadata):
                body = Metadata.of(self.state, self.begun).encode()
                ClusterState(self.store.documents()).set_metadata("0", body)

    def _name(self, lane: str) -> str:
        return self.state.plan.queries[lane].name

    def _timed(self, done: Epoch) -> Epoch:
        """An epoch whose stages took the given times."""
        measured = done.measured
        if self.vertex_costs is not None:
            return self._timed_by_vertex(done)
        served = {
            lane: [
                msgspec.structs.replace(
                    each, busy_ns=int(each.taken_bytes * self.costs(self._name(lane), each.stage) * 1e9)
                )
                for each in listed
            ]
            for lane, listed in measured.served.items()
        }
        work = tuple(map(self._timed_work, measured.work))
        return replace(done, measured=replace(measured, served=served, work=work))

    def _timed_by_vertex(self, done: Epoch) -> Epoch:
        """An epoch in which each stage took the time of its vertices."""
        assert self.vertex_costs is not None
        lanes, work, stages = self.state.revision.lanes, list[VertexWork](), Counter[tuple[str, int]]()
        for lane_id, key, target, each in done.measured.work:
            lane = lanes[lane_id]
            at = lane.flow.keys.index(key)
            names = frozenset(output.name for output in lane.by_vertex[at])
            busy = int(sum(each.rows_in) * self.vertex_costs(names) * 1e9)
            stages[lane_id, lane.flow.vertices[at].stage] += busy
            work.append((lane_id, key, target, msgspec.structs.replace(each, busy_ns=busy)))
        served = {
            lane: [msgspec.structs.replace(each, busy_ns=stages.pop((lane, each.stage), 0)) for each in listed]
            for lane, listed in done.measured.served.items()
        }
        return replace(done, measured=replace(done.measured, served=served, work=tuple(work)))

    def _timed_work(self, done: VertexWork) -> VertexWork:
        lane, key, target, work = done
        seconds = work.rows_in[0] * self.costs(self._name(lane), 0) if work.bytes_in else 0.0
        return lane, key, target, msgspec.structs.replace(work, busy_ns=int(seconds * 1e9))


def fixed(costs: Mapping[tuple[str, int], float], other: float = 0.0) -> Costs:
    """Costs by lane and stage; those not listed are `other`."""
    return lambda lane, stage: costs.get((lane, stage), other)
