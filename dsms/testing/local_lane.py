"""A lane in one process: its positions in the in-memory logs, its state on each target, and its batches."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from connectors.formats import RowDecoder
from dsms.model.objects import Source
from dsms.physical.fragment_plan import Planned, compile_lane
from dsms.physical.lane import Lane
from dsms.runtime.stages.intake import Arrivals, DeadLetter, Intake, reading_schema
from dsms.runtime.stages.lane_step import Frontiers, StageStep, frontier, of_member, read_stage, route, target_stage
from dsms.runtime.stages.stored_state import united
from dsms.scheduler.work import Measures, Work, Works
from dsms.testing.changes import Change, as_changes
from dsms.testing.local_tables import INSTANT, OPERATION
from operators.core.clock import Heartbeat, PartitionClock
from operators.core.delta import BEGINNING, FROM, ORDER, Delta, origin, union_all
from operators.core.errors import InternalError
from operators.core.operator import FAULT, State
from operators.streams.stream_output import OP

#: A dead letter, and the source that it belongs to.
Letter = tuple[Source, DeadLetter]


@dataclass
class Log:
    """A source's log: records as they were pushed, and the promises between them."""

    records: list[Mapping[str, object]] = field(default_factory=list)
    heartbeats: list[Heartbeat] = field(default_factory=list)


class LocalLane:
    """Queries that stand at one place of the logs, and run as one dataflow."""

    def __init__(self, queries: Iterable[Planned], partitions: int, lane: Lane | None = None) -> None:
        """`lane` is what the queries were compiled to before."""
        self._queries = {query.id: query for query in queries}
        #: On each target, the traces of the vertices by their keys.
        self._states: list[dict[str, tuple[State, ...]]] = [{} for _ in range(partitions)]
        #: For each source, the next record and the clock.
        self.positions: dict[str, tuple[int, PartitionClock]] = {}
        self.published: dict[str, list[Change]] = {query: [] for query in self._queries}
        #: The instants below which results are left out: they were published before.
        self._upto: dict[str, int] = {}
        self.paused = False
        self.measures = Measures(time.monotonic())
        self.dead: list[Letter] = []
        self._compile(lane)

    @property
    def planned(self) -> list[Planned]:
        """The queries as they were planned."""
        return list(self._queries.values())

    @property
    def queries(self) -> set[str]:
        """The ids of the queries."""
        return set(self._queries)

    def without(self, gone: set[str]) -> bool:
        """Drops queries; whether any are left."""
        if gone & self.queries:
            self._queries = {query: planned for query, planned in self._queries.items() if query not in gone}
            self._compile()
        return bool(self._queries)

    def follow(self, query: str, published: list[Change], since: int) -> None:
        """Goes on with the results of another query, from an instant on."""
        self.published[query], self._upto[query] = published, since

    def replan(self, query: Planned) -> None:
        """Runs a query by an equal plan that needs no other state."""
        self._queries[query.id] = query
        self._compile()

    def parted(self, leaving: Iterable[Planned]) -> list[LocalLane]:
        """The lane without some of its queries, and each of these by itself with what it holds."""
        parts = [self._alone(query) for query in leaving if query.id in self._queries]
        if not parts or len(self._queries) == 1:
            return [self]
        return [*([self] if self.without({query for part in parts for query in part.queries}) else []), *parts]

    def _alone(self, query: Planned) -> LocalLane:
        """A query as a lane of its own; one whose state is not to be told from the others' begins anew."""
        alone, was = LocalLane([query], len(self._states)), self._queries[query.id]
        alone.published[query.id], alone._upto[query.id] = self.published[query.id], self.frontier(query.id)
        if was.member is None:
            keys = set(alone.lane.flow.keys)
            alone.positions = {source: self.positions[source] for source in alone.positions}
            alone._states = [{key: held for key, held in state.items() if key in keys} for state in self._states]
        return alone

    @property
    def shared(self) -> bool:
        """Whether the queries may run together with others."""
        return not self.paused and all(query.shared for query in self._queries.values())

    def takes(self, other: LocalLane) -> bool:
        """Takes another lane's queries over with their state, if both stand at the same place of every log that both
        read: what both hold is equal there."""
        if not (self.shared and other.shared):
            return False
        common = self.positions.keys() & other.positions.keys()
        if any(self.positions[source] != other.positions[source] for source in common):
            return False
        self._queries |= other._queries
        self.positions |= other.positions
        self.published |= other.published
        self._upto |= other._upto
        self.measures = self.measures.beside(other.measures)
        members = other.lane.flow.members
        both = zip(self._states, other._states, strict=True)
        self._states = [
            {key: tuple(traces) for key, traces in united(mine, theirs, members, _beside).items()}
            for mine, theirs in both
        ]
        self._compile()
        return True

    def reached(self, source: str) -> int | None:
        """An instant after all that was read of a source, and at or after what it was promised; None: nothing was."""
        _, clock = self.positions.get(source, (0, PartitionClock()))
        at = max(clock.frontier, clock.high + 1 if clock.high > BEGINNING else BEGINNING)
        return None if at == BEGINNING else at

    def frontier(self, query: str) -> int:
        """The instants below which the query's result is final."""
        output = next(one for one in self.lane.outputs if one.id == query)
        return max(frontier(self.lane.leaves(output), self._frontiers()), self._upto.get(query, BEGINNING))

    def batch(self, logs: Mapping[str, Log], most: int | None) -> bool:
        """At most so many records of each source, then the moves of the frontiers; whether there was anything new."""
        if self.paused:
            return False
        arrived: list[dict[int, list[Delta]]] = [defaultdict(list) for _ in self._states]
        before = self._frontiers()
        read = [self._read(source, logs[source.id], most, arrived) for source in self.lane.sources.values()]
        if not any(read):
            return False
        moves = before, self._frontiers()
        for stage in range(1, self.lane.flow.stages + 1):
            self._stage(stage, arrived, moves)
        return True

    def _compile(self, lane: Lane | None = None) -> None:
        self.lane = lane or compile_lane("local", self._queries.values())
        kept = set(self.lane.flow.keys)
        self._states = [{key: held for key, held in state.items() if key in kept} for state in self._states]
        self.measures = self.measures.kept({self.lane.id: kept})
        sources = {source.id for source in self.lane.sources.values()}
        begun = {source: self.positions.get(source, (0, PartitionClock())) for source in sources}
        self.positions = begun

    def _frontiers(self) -> Frontiers:
        return {number: self.positions[source.id][1].frontier for number, source in self.lane.sources.items()}

    def _read(self, source: Source, log: Log, most: int | None, arrived: list[dict[int, list[Delta]]]) -> bool:
        """The source stage over the next records of one source; whether there was anything new."""
        start, clock = self.positions[source.id]
        end = min(len(log.records), start + (most or len(log.records)))
        beats = tuple(beat for beat in log.heartbeats if start <= beat.offset <= end)
        if end == start and max((beat.time for beat in beats), default=BEGINNING) <= clock.frontier:
            return False
        began = time.perf_counter_ns()
        admitted = _intake(source).admit(_arrivals(source, log, start, end, beats), clock)
        read = Work((end - start,), len(admitted.delta), time.perf_counter_ns() - began)
        self.dead += [(source, letter) for letter in admitted.dead]
        step = read_stage(self.lane, source.number, admitted.delta, admitted.marks)
        self._measure({self.lane.flow.leaf(source.number): read, **step.work})
        self._report(step)
        self._send(step, arrived, 0)
        self.positions[source.id] = (end, admitted.clock)
        return True

    def _stage(
        self, stage: int, arrived: list[dict[int, list[Delta]]], moves: tuple[Frontiers, Frontiers]
    ) -> None:  # fmt: skip
        inputs = [{one: union_all(parts) for one, parts in came.items()} for came in arrived]
        keys = self.lane.flow.keys
        here = self.lane.flow.by_stage.get(stage, ())
        steps = []
        for target, state in enumerate(self._states):
            held = {at: state[keys[at]] for at in here if keys[at] in state}
            steps.append(target_stage(self.lane, (stage, target), inputs[target], held, moves))
        for target, step in enumerate(steps):
            self._states[target] |= {keys[at]: traces for at, traces in step.state.items() if traces}
            self._measure(step.work, target)
            self._report(step)
            self._send(step, arrived, target)
        self._publish(steps)

    def _publish(self, steps: list[StageStep]) -> None:
        for output in self.lane.outputs:
            changes = [
                of_member(step.changes[output.vertex], output) for step in steps if output.vertex in step.changes
            ]
            if any(found.height for found in changes):
                fresh = pl.concat(changes).filter(pl.col(FROM) >= self._upto.get(output.id, BEGINNING))
                merged = fresh.sort(FROM, ORDER, pl.col(OP) != "-", *output.schema.names)
                self.published[output.id] += as_changes(merged, output.schema.names, output.keys)

    def _send(self, step: StageStep, arrived: list[dict[int, list[Delta]]], target: int) -> None:
        for exchange, delta in step.sent.items():
            parts = route(self.lane.flow.exchanges[exchange], delta, len(self._states), target)
            for to, part in enumerate(parts):
                arrived[to][exchange].append(part)

    def _measure(self, work: Works, target: int = 0) -> None:
        keys = self.lane.flow.keys
        told = ((self.lane.id, keys[at], target, one) for at, one in work.items())
        self.measures = self.measures.after(time.monotonic(), told)

    def _report(self, step: StageStep) -> None:
        """Rows in fault are dead letters of the source whose record caused them, for each query that lacks them."""
        for at, why in step.failures.items():
            raise InternalError(f"vertex {at}: {why}")
        for at, frame in step.faults.items():
            for output in self.lane.by_vertex.get(at, ()):
                for order, reason in of_member(frame, output).select(ORDER, FAULT).iter_rows():
                    number, _, offset = origin(order)
                    letter = DeadLetter(0, offset, reason, None, output.name)
                    self.dead.append((self.lane.sources[number], letter))


def _beside(mine: State, theirs: State) -> State:
    return replace(mine, runs=(*mine.runs, *theirs.runs))  # type: ignore[type-var]


def _intake(source: Source) -> Intake:
    upserts, deletions = reading_schema(source), reading_schema(source, deletions=True)
    return Intake(source, RowDecoder(upserts).decode, RowDecoder(deletions).decode)


def _arrivals(source: Source, log: Log, start: int, end: int, beats: tuple[Heartbeat, ...]) -> Arrivals:
    """Pushed dicts as arrivals. What is no integer instant is refused by the intake, as `__ts` outside every range."""
    records = log.records[start:end]
    instants = pl.Series([_instant(record, source) for record in records], dtype=pl.Int64)
    op = OPERATION if source.table else "op"
    ops = [str(record[op]) if op in record else None for record in records] if source.tagged == "header" else None
    return Arrivals(0, np.arange(start, end), records, instants, ops, None, beats)


def _instant(record: Mapping[str, object], source: Source) -> int | None:
    ts = record.get(INSTANT if source.table else "ts")
    return ts if isinstance(ts, int) and not isinstance(ts, bool) and abs(ts) < 2**63 else None
