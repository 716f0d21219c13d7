"""The states of objects, from the reports of executors and from the topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dsms.coordinator.catalog.system_objects import is_system
from dsms.coordinator.watcher.progress import Progress
from dsms.model.objects import Object, Query, Source
from dsms.placement.leases import RUNNING, ExecutorStatus
from dsms.runtime.stages.awaited_schemas import first_of
from operators.core.delta import BEGINNING
from operators.core.errors import ExternalError

Executors = Mapping[str, ExecutorStatus]


@dataclass(frozen=True)
class States:
    """The states of the objects in one listing. Calls `read_executors`, `topics` and `topic_ids` at most once each, for
    the first object that depends on them.

    >>> from dsms.placement.leases import QueryStatus
    >>> query = Query(name="q", id="o2", sql="", kind="query", select="", topic="q")
    >>> states = States(lambda: {"one": ExecutorStatus(RUNNING, lanes={"o2": QueryStatus(9)})}, {})
    >>> states.of(query), states.frontier(query)
    ('running', 9)
    """

    read_executors: Callable[[], Executors]
    #: How far the queries have read, by id.
    progress: Mapping[str, Progress]
    #: Returns the number of partitions of each topic; empty: the numbers are not checked.
    topics: Callable[[], Mapping[str, int]] = dict
    #: Returns the ids of the topics of sources; empty: the ids are not checked.
    topic_ids: Callable[[], Mapping[str, str]] = dict
    #: Returns why a query cannot be planned; "" if it can.
    planning_error: Callable[[Query], str] = lambda _: ""

    def of(self, item: Object) -> str:
        """The state of an object, such as "registered, 3 dead letters", "running", "waiting for an executor" or
        "failed: …"; "unknown: …" while Redis is unavailable."""
        if is_system(item):
            return "system"
        try:
            if isinstance(item, Source):
                return ", ".join(["registered", *self._of_source(item)])
            return self._of_query(item) if isinstance(item, Query) else "registered"
        except ExternalError as error:
            return f"unknown: {error}"

    def frontier(self, query: Query) -> int | None:
        """The instant below which a query's result is final; None if no executor runs the query. Raises ExternalError
        while Redis is unavailable."""
        return next(
            (status.lanes[query.id].frontier for status in self._executors().values() if query.id in status.lanes), None
        )

    def size(self, query: str) -> float:
        """The size of a query's windows as a fraction of their ranges, given the query's id; 1 if it is unknown."""
        sizes = (status.lanes[query].size for status in self._executors().values() if query in status.lanes)
        return next((size for size in sizes if size is not None), 1.0)

    def _of_source(self, source: Source) -> Iterator[str]:
        if letters := sum(status.dead_letters.get(source.name, 0) for status in self._executors().values()):
            yield f"{letters} dead letters"
        yield from (status.waits[source.name] for status in self._executors().values() if source.name in status.waits)
        for partition, instant in source.added_partitions.items():
            since = "" if instant == BEGINNING else f" and its frontier starts at instant {instant}"
            yield f"partition {partition} was added{since}"
        if source.topic_id is not None and self._ids.get(source.topic, source.topic_id) != source.topic_id:
            yield f'topic "{source.topic}" was deleted and re-created: drop the source, and create it again'
        count = self._partitions.get(source.topic, 0) if self._partitions else source.partitions
        if count > source.partitions:
            added = count - source.partitions
            yield f"{added} of {count} partitions were added and are not read yet"
        elif count < source.partitions:
            yield f'topic "{source.topic}" has only {count} of {source.partitions} partitions'

    def _of_query(self, query: Query) -> str:
        if query.stopped:
            return "paused" if query.paused else "halted"
        status = next((status for status in self._executors().values() if query.id in status.lanes), None)
        if status is None:
            why = self.planning_error(query)
            return f"failed: cannot be planned: {why}" if why else "waiting for an executor"
        lane = status.lanes[query.id]
        if lane.error:
            return f"failed: {lane.error.splitlines()[0]}"
        progress = self.progress.get(query.id, Progress(0, 0)).text if status.state == RUNNING else ""
        if lane.waits and status.state == RUNNING:
            progress = first_of(lane.waits)
        change = "changing its plan" if query.next_join_orders is None else "changing the order of its joins"
        changing = change if lane.next_plan in ("building", "ready") else ""
        return ", ".join(text for text in (progress or status.state, lane.shed, changing) if text)

    @cached_property
    def _partitions(self) -> Mapping[str, int]:
        return self.topics()

    @cached_property
    def _ids(self) -> Mapping[str, str]:
        return self.topic_ids()

    def _executors(self) -> Executors:
        if isinstance(self._seen, ExternalError):
            raise self._seen
        return self._seen

    @cached_property
    def _seen(self) -> Executors | ExternalError:
        try:
            return self.read_executors()
        except ExternalError as error:
            return error
