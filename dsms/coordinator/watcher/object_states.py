"""How objects fare, by one look at the executors and one at the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsms.coordinator.catalog.system_objects import is_system
from dsms.coordinator.watcher.progress import Progress
from dsms.model.objects import Object, Query, Source
from dsms.scheduler.leases import RUNNING, ExecutorStatus
from operators.core.errors import ExternalError

Executors = Mapping[str, ExecutorStatus]


@dataclass(frozen=True)
class States:
    """The states of a listing: `look` and `topics` are called once, when an object is asked for that depends on them.

    >>> from dsms.scheduler.leases import LaneStatus
    >>> query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    >>> states = States(lambda: {"one": ExecutorStatus(RUNNING, lanes={"o2": LaneStatus(9)})}, {})
    >>> states.of(query), states.frontier(query)
    ('running', 9)
    """

    look: Callable[[], Executors]
    #: How far the queries are, by id.
    progress: Mapping[str, Progress]
    #: How many partitions each topic has; nothing at all where that is not looked for.
    topics: Callable[[], Mapping[str, int]] = dict

    def of(self, found: Object) -> str:
        """How an object fares: "registered" and its dead letters, "running", "waiting for an executor", "failed: …"."""
        if is_system(found):
            return "system"
        try:
            if isinstance(found, Source):
                return ", ".join(["registered", *self._of_source(found)])
            return self._of_query(found) if isinstance(found, Query) else "registered"
        except ExternalError as error:
            return f"unknown: {error}"

    def frontier(self, query: Query) -> int | None:
        """The instant below which a query's result is final; None where nobody runs it. ExternalError where that is
        not known."""
        return next(
            (status.lanes[query.id].frontier for status in self._executors().values() if query.id in status.lanes), None
        )

    def _of_source(self, source: Source) -> Iterator[str]:
        if count := sum(status.dead_letters.get(source.name, 0) for status in self._executors().values()):
            yield f"{count} dead letters"
        there = self._partitions.get(source.topic, 0) if self._partitions else source.partitions
        if there > source.partitions:
            yield f"{there - source.partitions} of {there} partitions are not read: they came later, register it anew"
        elif there < source.partitions:
            yield f'topic "{source.topic}" has {there} partitions of {source.partitions}'

    def _of_query(self, query: Query) -> str:
        if query.still:
            return "paused" if query.paused else "halted"
        status = next((one for one in self._executors().values() if query.id in one.lanes), None)
        if status is None:
            return "waiting for an executor"
        lane = status.lanes[query.id]
        if lane.error:
            return f"failed: {lane.error.splitlines()[0]}"
        going = self.progress.get(query.id, Progress(0, 0)).text if status.state == RUNNING else ""
        return ", ".join(one for one in (going or status.state, lane.shed) if one)

    @cached_property
    def _partitions(self) -> Mapping[str, int]:
        return self.topics()

    def _executors(self) -> Executors:
        if isinstance(self._seen, ExternalError):
            raise self._seen
        return self._seen

    @cached_property
    def _seen(self) -> Executors | ExternalError:
        try:
            return self.look()
        except ExternalError as error:
            return error
