"""Planning of batches: the offsets that the next batch covers, and its tasks."""

from __future__ import annotations

import math
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from connectors.alarms import Alarms
from connectors.kafka.client.topics import Partition, latest
from connectors.kafka.logs.heartbeats import HeartbeatLog
from connectors.kafka.logs.shed_log import ShedLog
from dsms.model.objects import DEFAULT_AHEAD_MS, Source
from dsms.planner.physical.parts.links import is_link
from dsms.runtime.batching.idleness import SourceActivity, heartbeats_due, leading, may_be_idle, sources_of_queries
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
    with_settings,
    with_skipped,
)
from dsms.runtime.batching.planner_input import PlannerInput
from dsms.runtime.batching.topic_watch import TopicWatch
from dsms.runtime.lanes.manifest import SourcePartition
from dsms.runtime.shedding.settings import adjustable, last_logged, new_settings
from dsms.runtime.stages.ahead import far_in_the_future
from dsms.runtime.stages.source_task import KafkaSourceTask
from operators.core.delta import BEGINNING
from operators.core.errors import ExternalError

#: The functions that other processes may call in a planner, by name.
Calls = Mapping[str, Callable[..., Any]]
#: The key, in an offset document, of the last revision whose lanes worked on their queues. Spark runs a batch if the
#: document has changed, so a change of this entry causes a batch even if nothing is read.
WORKED_REVISION = "turn"
#: The longest pause between two attempts to read a record that waits for its schema.
_LONGEST_PAUSE_S = 15.0


class BatchPlanner:
    """Plans batches from its input, the ends of the topics and the heartbeat log. It is used by one thread; another
    thread may close it.

    `current_input` returns the current input. `passed_by_others` returns, for a source whose partitions are divided
    among fragments, the greatest instant that other fragments have passed.
    """

    def __init__(
        self,
        current_input: Callable[[], PlannerInput],
        alarms: Alarms,
        passed_by_others: Callable[[str], int] = lambda _: BEGINNING,
    ) -> None:
        self._current_input, self._alarms = current_input, alarms
        self._passed_by_others = passed_by_others
        self._heartbeat_log: HeartbeatLog | None = None
        self._shed_log: ShedLog | None = None
        #: Opening a log fences its former owner, so no log may be opened after `close`.
        self._opening, self._closed = threading.Lock(), False
        #: The ends of the logs when a query was first seen, by query: its settings begin at or above them.
        self._settings_floors: dict[str, Ends] = {}
        self._topics: TopicWatch | None = None
        #: How often waiting records were tried again, and when last.
        self._tries, self._tried_at = 0, 0.0
        self._latest: Callable[[set[Partition]], dict[Partition, int]] | None = None
        #: The last known end of each source partition, and since when it has not changed.
        self._last_growth: dict[SourcePartition, tuple[int, float]] = {}
        self._ends_read_at = 0.0
        #: When sources were last checked for instants far ahead of the clock, in milliseconds.
        self._instants_checked_ms = 0
        #: The input and the end of the last planned batch.
        self.planned: PlannerInput | None = None
        self._planned_end: Offsets = {}
        self._known_ends: Ends = {}
        #: When the last batch was planned.
        self._begun_at = -math.inf
        #: Whether there was nothing to do when Spark asked last.
        self.idle = False
        #: The settings of queries that were logged last.
        self.logged: dict[str, float] = {}

    def initial(self) -> Offsets:
        """The positions of the lanes in the manifest."""
        given = self._current_input()
        return offsets_at(given.plan_version, given.positions, self._opened_heartbeat_log(given).known)

    def latest(self, start: Offsets) -> Offsets:
        """The end of the next batch; `start` as long as it should not begin yet. First logs the heartbeats of idle
        partitions.

        The heartbeats of other fragments are read after the ends of the topics. This way all fragments apply the same
        heartbeats to the records below these ends.
        """
        given = self._current_input()
        if self._begins_later(given):
            self.idle = False
            return start
        self.planned, positions = given, given.positions
        lost, due = self._recreated_sources(given, positions), self._retries_waiting(given)
        ends = self._known_ends = self._ends(given, positions, lost | given.suspended_sources)
        log = self._log_heartbeats(given, positions)
        # a batch ends before undecided heartbeats, and before records that wait
        for limits in (log.bounds(), {} if due else given.waiting_records):
            ends = {place: min(end, limits.get(place, end)) for place, end in ends.items()}
        self._log_settings(given, positions)
        limit = given.limit(waiting(positions, ends, given.reads, given.link_rows))
        upto = next_offsets(given.plan_version, positions, ends, log.known, limit, given.reads, given.link_rows)
        self._planned_end = upto
        works = given.lanes_to_wake or lost or due or given.repeats_last
        end = {**upto, WORKED_REVISION: given.revision if works else start.get(WORKED_REVISION, 0)}
        self.idle = end == {WORKED_REVISION: 0, **start}
        if not self.idle:
            self._begun_at = time.monotonic()
        return end

    def _begins_later(self, given: PlannerInput) -> bool:
        """Whether the interval between two batches has not passed yet, and no backlog and no waiting work forbids to
        wait for it."""
        early = time.monotonic() < self._begun_at + given.trigger_interval_s
        return early and not (given.lanes_to_wake or given.repeats_last or self.leaves_unread)

    @property
    def leaves_unread(self) -> bool:
        """Whether the last batch that was planned leaves records unread."""
        return self.planned is not None and any(
            unread(self.planned.positions, self._known_ends, self._planned_end).values()
        )

    def tasks(self, start: Offsets, end: Offsets) -> list[SourceTask]:
        """The tasks of a batch, at most one for each core, with about equally many records."""
        given = self.planned or self._current_input()
        planned = slices(
            given.lanes, given.positions, start, end, self._opened_heartbeat_log(given).known, given.read_again
        )
        planned = with_skipped(planned, given.skipped)
        if (log := self._opened_shed_log(given)) is not None:
            planned = with_settings(planned, given.lanes, log.known)
        tasks = [_task(given, tuple(part)) for part in distribute(planned, given.source_tasks)]
        wakes = given.lanes_to_wake if start.get(WORKED_REVISION, 0) != end.get(WORKED_REVISION, 0) else ()
        first, *others = tasks or [_task(given, ())]
        behind = unread(given.positions, self._known_ends, end)
        return [replace(first, lanes_to_wake=wakes, behind=behind), *others]

    @property
    def calls(self) -> Calls:
        """The functions that other processes may call. Tasks are returned pickled, so that a process that only passes
        them on does not import the modules that they need."""

        def tasks(start: Offsets, end: Offsets) -> list[bytes]:
            tasks = self.tasks(start, end)
            given = self.planned or self._current_input()
            services = given.kafka, given.registry_url, given.frames
            return [pickle.dumps(KafkaSourceTask(task, *services)) for task in tasks]

        return {"initial": self.initial, "latest": self.latest, "tasks": tasks}

    def close(self) -> None:
        """Closes its logs, and opens none afterwards."""
        with self._opening:
            self._closed = True
            for log in (self._heartbeat_log, self._shed_log):
                if log is not None:
                    log.close()

    @contextmanager
    def _opening_log(self) -> Iterator[None]:
        """Holds the lock under which logs are opened; raises ExternalError if the planner is closed."""
        with self._opening:
            if self._closed:
                raise ExternalError("the fragment was stopped")
            yield

    def _opened_heartbeat_log(self, given: PlannerInput) -> HeartbeatLog:
        if self._heartbeat_log is None:
            with self._opening_log():
                self._heartbeat_log = HeartbeatLog(given.kafka, given.cluster, given.fragment, self._alarms)
        return self._heartbeat_log

    def _log_heartbeats(self, given: PlannerInput, positions: Positions) -> HeartbeatLog:
        """The heartbeat log, read to its end, after the heartbeats that are due have been added."""
        log, sources = self._opened_heartbeat_log(given), _sources(given, positions)
        log.follow(source_id for source_id, source in sources.items() if not (source.table or is_link(source_id)))
        activities = self._activities(given, positions)
        self._warn_of_future_instants(activities.values())
        if not any(activity.idle for activity in activities.values()):
            return log
        groups = {*sources_of_queries(given.lanes[lane] for lane in positions), *given.sources_of_readers}
        if beats := heartbeats_due(activities, groups, self._passed_by_others):
            log.promise(beats, partial(self._ends_of, given, sources))
        return log

    def _warn_of_future_instants(self, activities: Iterable[SourceActivity]) -> None:
        """Raises an alarm for partitions with an instant far ahead of the clock, because all records below it are late.
        Checks at most once a second."""
        now = time.time_ns() // 1_000_000
        if now < self._instants_checked_ms + 1_000:
            return
        self._instants_checked_ms = now
        for activity in activities:
            for partition, at in activity.positions.items():
                if not activity.source.table and at.high >= now and far_in_the_future(at.high, now, DEFAULT_AHEAD_MS):
                    self._alarms.raise_at(activity.source.topic, _ahead_alarm(activity.source, at.high), partition)

    def _log_settings(self, given: PlannerInput, positions: Positions) -> None:
        """Logs the settings that have changed."""
        if (log := self._opened_shed_log(given)) is None:
            return
        for query in adjustable(given.lanes):
            self._settings_floors.setdefault(query, self._known_ends)
        if fresh := new_settings(given.lanes, positions, given.settings, log.known, self._settings_floors):
            log.decide(fresh)
        self.logged = last_logged(log.known)

    def _opened_shed_log(self, given: PlannerInput) -> ShedLog | None:
        """The log of rates and window sizes; None as long as no query has such settings."""
        if self._shed_log is None and adjustable(given.lanes):
            with self._opening_log():
                self._shed_log = ShedLog(given.kafka, given.cluster, given.fragment, self._alarms)
        return self._shed_log

    def _retries_waiting(self, given: PlannerInput) -> bool:
        """Whether the next batch tries waiting records again: first after a second, then after ever longer pauses."""
        if not given.waiting_records:
            self._tries, self._tried_at = 0, time.monotonic()
            return False
        if any(offset in given.skipped.get(place, ()) for place, offset in given.waiting_records.items()):
            return True
        if time.monotonic() - self._tried_at < min(2.0 ** min(self._tries, 10), _LONGEST_PAUSE_S):
            return False
        self._tries, self._tried_at = self._tries + 1, time.monotonic()
        return True

    def _recreated_sources(self, given: PlannerInput, positions: Positions) -> AbstractSet[str]:
        """The sources whose topics were deleted and created again. The next batch reads nothing from them, and fails
        their queries."""
        self._topics = self._topics or TopicWatch(given.kafka)
        return self._topics.recreated_cached(_sources(given, positions).values()).keys()

    def _ends(self, given: PlannerInput, positions: Positions, lost: AbstractSet[str]) -> dict[SourcePartition, int]:
        """The committed ends of all source partitions that exist and can be read. Records when each has last grown."""
        sources = _sources(given, positions)
        places = {place for parts in positions.values() for place in parts if place[0] not in lost}
        ends = self._ends_of(given, sources, places)
        self._ends_read_at = time.monotonic()
        for key, end in ends.items():
            if self._last_growth.get(key, (None, 0.0))[0] != end:
                self._last_growth[key] = (end, self._ends_read_at)
        return ends

    def _ends_of(
        self, given: PlannerInput, sources: Mapping[str, Source], places: Iterable[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """The committed ends of those source partitions that exist."""
        topics = {place: (sources[place[0]].topic, place[1]) for place in places}
        self._latest = self._latest or partial(latest, given.kafka.admin())
        by_topic = self._latest(set(topics.values()))
        return {place: by_topic[topic] for place, topic in topics.items() if topic in by_topic}

    def _activities(self, given: PlannerInput, positions: Positions) -> dict[str, SourceActivity]:
        """How long the sources have been silent, by id. A partition with a record that waits for its schema is not
        idle, since the record is unread."""
        activities: dict[str, SourceActivity] = {}
        for source_id, source in _sources(given, positions).items():
            leader = leading(source_id, positions)
            silent = {
                partition: (self._ends_read_at - self._last_growth[(source_id, partition)][1]) * 1000
                for partition in leader
                if (source_id, partition) in self._last_growth
            }
            divided = source.only is not None and may_be_idle(source, silent.values())
            passed_by_others = self._passed_by_others(source_id) if divided else BEGINNING
            ends = {part: end for (one, part), end in self._known_ends.items() if one == source_id}
            activities[source_id] = SourceActivity(source, leader, ends, silent, passed_by_others)
        return activities


def _ahead_alarm(source: Source, instant: int) -> str:
    """The alarm about a source with an instant far ahead of the clock.

    >>> _ahead_alarm(Source(name="s", id="o1", sql="", columns=(), topic="t"), 7)
    'source "s": a record has instant 7, more than 24 hours ahead of the clock, so all records below it are late; \
drop the source and register it again with AHEAD'
    """
    return (
        f'source "{source.name}": a record has instant {instant}, more than {DEFAULT_AHEAD_MS / 3_600_000:g} hours '
        "ahead of the clock, so all records below it are late; drop the source and register it again with AHEAD"
    )


def _task(given: PlannerInput, planned: tuple[Slice, ...]) -> SourceTask:
    lanes = {lane: given.lanes[lane] for slice_ in planned for lane in slice_.lanes}
    return SourceTask(planned, lanes, given.revision, given.targets)


def _sources(given: PlannerInput, positions: Positions) -> dict[str, Source]:
    """The sources that the lanes read, by id."""
    return {source.id: source for lane in positions for source in given.lanes[lane].sources.values()}
