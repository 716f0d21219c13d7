"""Planning of batches: which offsets the next one covers, and its tasks."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from connectors.kafka.heartbeats import HeartbeatLog
from connectors.kafka.shed_log import ShedLog
from connectors.kafka.topics import Partition, latest
from dsms.model.objects import Source
from dsms.runtime.batching.idleness import Silence, idle_heartbeats
from dsms.runtime.batching.offsets import (
    Ends,
    Offsets,
    Positions,
    Slice,
    SourceTask,
    distribute,
    next_offsets,
    offsets_at,
    slices,
    unread,
    waiting,
    with_rates,
)
from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.lanes.manifest import SourcePartition
from dsms.runtime.shedding.rates import new_rates, sheddable
from dsms.runtime.stages.source_task import KafkaSourceTask
from operators.core.delta import BEGINNING
from operators.core.errors import ExternalError

#: The functions by which a planner answers other processes, by name.
Answers = Mapping[str, Callable[..., Any]]
#: In an offset document: the last revision in which lanes worked on what waited in them. A document that differs in it
#: makes a batch, though nothing is read.
TURN = "turn"


class BatchPlanner:
    """Plans batches from what it is told, the ends of the topics and the heartbeat log, in one thread; another one may
    close it. `told` gives what it is to know now."""

    def __init__(self, told: Callable[[], PlannerInput]) -> None:
        self._told = told
        self._log: HeartbeatLog | None = None
        self._sheds: ShedLog | None = None
        #: Whoever makes a log fences the owner before: once this is closed it makes none.
        self._making, self._closed = threading.Lock(), False
        #: The ends of the logs when a query was first seen: no rate of it begins below them.
        self._floors: dict[str, Ends] = {}
        self._latest: Callable[[set[Partition]], dict[Partition, int]] | None = None
        self._grown: dict[SourcePartition, tuple[int, float]] = {}
        self._looked = 0.0
        self._planned: PlannerInput | None = None
        self._known: Ends = {}

    def initial(self) -> Offsets:
        """Where the manifest says that lanes stand."""
        control = self._told()
        return offsets_at(control.plan_version, control.positions, self._heartbeats(control).known)

    def latest(self, start: Offsets) -> Offsets:
        """Up to where the next batch goes. Idle partitions are promised in the heartbeat log first."""
        control = self._planned = self._told()
        positions = control.positions
        ends = self._known = self._ends(control, positions)
        log = self._heartbeats(control)
        for source, seen in self._silences(control, positions, ends):
            if beats := idle_heartbeats(source, seen):
                log.promise(source.id, beats)
        self._shed(control, positions)
        limit = control.limit(waiting(positions, ends, control.reads))
        upto = next_offsets(control.plan_version, positions, ends, log.known, limit, control.reads)
        return {**upto, TURN: control.revision if control.wakes else start.get(TURN, 0)}

    def tasks(self, start: Offsets, end: Offsets) -> list[SourceTask]:
        """One task for each core, each with about as many records."""
        control = self._planned or self._told()
        found = slices(control.lanes, control.positions, start, end, self._heartbeats(control).known)
        if (sheds := self._shed_log(control)) is not None:
            found = with_rates(found, control.lanes, sheds.known)
        tasks = [_task(control, tuple(held)) for held in distribute(found, control.source_tasks)]
        wakes = control.wakes if start.get(TURN, 0) != end.get(TURN, 0) else ()
        first, *others = tasks or [_task(control, ())]
        behind = unread(control.positions, self._known, end)
        return [replace(first, wakes=wakes, behind=behind), *others]

    @property
    def answers(self) -> Answers:
        """What it answers other processes. Tasks are pickled: who passes them on need not know what is in them."""

        def tasks(start: Offsets, end: Offsets) -> list[bytes]:
            tasks = self.tasks(start, end)
            control = self._planned or self._told()
            services = control.kafka, control.registry_url, control.frames
            return [pickle.dumps(KafkaSourceTask(task, *services)) for task in tasks]

        return {"initial": self.initial, "latest": self.latest, "tasks": tasks}

    def close(self) -> None:
        """Closes its logs."""
        with self._making:
            self._closed = True
            for held in (self._log, self._sheds):
                if held is not None:
                    held.close()

    @contextmanager
    def _owning(self) -> Iterator[None]:
        """While a log is made."""
        with self._making:
            if self._closed:
                raise ExternalError("the fragment was stopped")
            yield

    def _heartbeats(self, control: PlannerInput) -> HeartbeatLog:
        if self._log is None:
            with self._owning():
                self._log = HeartbeatLog(control.kafka, control.cluster, control.fragment)
        return self._log

    def _shed(self, control: PlannerInput, positions: Positions) -> None:
        """Logs the rates that are wanted from here on."""
        if (log := self._shed_log(control)) is None:
            return
        for query in sheddable(control.lanes):
            self._floors.setdefault(query, self._known)
        if fresh := new_rates(control.lanes, positions, control.rates, log.known, self._floors):
            log.decide(fresh)

    def _shed_log(self, control: PlannerInput) -> ShedLog | None:
        """The shed log; None as long as no query allows that input is left out."""
        if self._sheds is None and sheddable(control.lanes):
            with self._owning():
                self._sheds = ShedLog(control.kafka, control.cluster, control.fragment)
        return self._sheds

    def _ends(self, control: PlannerInput, positions: Positions) -> dict[SourcePartition, int]:
        """The committed ends of all source partitions that exist, and since when each stands there."""
        sources = _sources(control, positions)
        places = {place for each in positions.values() for place in each}
        topics = {(sources[source_id].topic, partition) for source_id, partition in places}
        self._latest = self._latest or partial(latest, control.kafka.admin())
        found = self._latest(topics)
        self._looked = time.monotonic()
        ends = {
            (source_id, partition): found[(sources[source_id].topic, partition)]
            for source_id, partition in places
            if (sources[source_id].topic, partition) in found
        }
        for key, end in ends.items():
            if self._grown.get(key, (None, 0.0))[0] != end:
                self._grown[key] = (end, self._looked)
        return ends

    def _silences(
        self, control: PlannerInput, positions: Positions, ends: Mapping[SourcePartition, int]
    ) -> Iterator[tuple[Source, Silence]]:
        sources = _sources(control, positions)
        tables = {source_id for source_id, source in sources.items() if source.table}
        for source_id, source in sources.items():
            held = [
                {partition: at for (found, partition), at in each.items() if found == source_id}
                for each in positions.values()
            ]
            leader = max(held, key=lambda each: sum(position.offset for position in each.values()))
            silent = {
                partition: (self._looked - self._grown[(source_id, partition)][1]) * 1000
                for partition in leader
                if (source_id, partition) in self._grown
            }
            mine = {partition: end for (found, partition), end in ends.items() if found == source_id}
            yield source, Silence(leader, mine, silent, _others(source_id, positions, tables))


def _task(control: PlannerInput, held: tuple[Slice, ...]) -> SourceTask:
    lanes = {lane: control.lanes[lane] for one in held for lane in one.lanes}
    return SourceTask(held, lanes, control.revision, control.targets)


def _others(source_id: str, positions: Positions, tables: AbstractSet[str] = frozenset()) -> int:
    """The furthest frontier that the other sources of a lane reach, over the lanes that read this one.

    Tables do not count: their time is the clock's, and a stream that pauses may lag behind it.
    """
    frontiers = [
        min((at.frontier for (source, _), at in each.items() if source not in {source_id, *tables}), default=BEGINNING)
        for each in positions.values()
        if any(source == source_id for source, _ in each)
    ]
    return max(frontiers, default=BEGINNING)


def _sources(control: PlannerInput, positions: Positions) -> dict[str, Source]:
    """The sources that the lanes read, by id."""
    return {source.id: source for lane in positions for source in control.lanes[lane].sources.values()}
