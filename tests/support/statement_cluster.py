"""The statements of a coordinator over a log, executors and tables in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from dsms.coordinator.catalog.catalog_store import CatalogStore, Event
from dsms.coordinator.sinks.allowed_targets import AllowedTargets
from dsms.coordinator.statements.cluster_parts import ClusterParts
from dsms.coordinator.statements.statement_runner import StatementRunner
from dsms.coordinator.watcher.executors import CatalogFollowers
from dsms.coordinator.watcher.object_states import States
from dsms.local.waiting import wait_until
from dsms.model import logical
from dsms.model.catalog import Catalog
from dsms.model.dropped_topics import DroppedTopic
from dsms.model.objects import FirstOffsets, Query, Source
from dsms.model.principal import ANYBODY, Caller, Principal
from dsms.model.statement_result import StatementResult
from dsms.model.statements import Name
from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from dsms.planner.physical.cost.estimate import Statistics
from operators.core.errors import ExternalError, Fenced

OBJECTS = """REGISTER SOURCE T (k INT, v INT) FROM t PARTITIONS 1; CREATE STREAM S OVER T KEY k;
CREATE VIEW base AS SELECT k, v FROM R(S); CREATE QUERY q AS SELECT k, v FROM R(S) WHERE v > 1"""


class MemoryChangeLog:
    """The log of a catalog in memory. With an `outcome` the next write fails, after its change was logged ("kept") or
    before ("lost")."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.catalog, self.events = catalog or Catalog(), list[Event]()
        self.in_doubt = self.replaced = self.away = False
        self.outcome: Literal["kept", "lost"] | None = None
        self.written: list[tuple[Catalog, Catalog]] = []
        self._users = 0

    def check(self) -> None:
        if self.away:
            raise ExternalError("kafka is away")

    def leads(self) -> bool:
        return not self.replaced

    def read(self) -> tuple[Catalog, list[Event]]:
        self._refuse()
        self.in_doubt = False
        return self.catalog, list(self.events)

    def write(self, before: Catalog, after: Catalog) -> None:
        with self._alone():
            self._log(lambda: self._take(before, after))

    def write_event(self, event: Event) -> None:
        with self._alone():
            self._log(lambda: self.events.append(event))

    def _take(self, before: Catalog, after: Catalog) -> None:
        self.catalog = after
        self.written.append((before, after))

    def _log(self, take: Callable[[], None]) -> None:
        self._refuse()
        self.in_doubt, outcome, self.outcome = True, self.outcome, None
        if outcome != "lost":
            take()
        if outcome is not None:
            raise ExternalError("the commit timed out")
        self.in_doubt = False

    def _refuse(self) -> None:
        self.check()
        if self.replaced:
            raise Fenced("a newer coordinator has taken over")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._users += 1
        assert self._users == 1, "two threads write the log"
        try:
            yield
        finally:
            self._users -= 1


class MemoryTopics:
    """Records the names of the topics that were created and of those that were deleted."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.deleted: list[str] = []
        self.away = False

    def make_source_topic(self, topic: str, partitions: int | None) -> dict[int, int]:
        self.made.append(topic)
        return dict.fromkeys(range(partitions or 1), 0)

    def topic_id(self, topic: str) -> str | None:
        return f"id of {topic}"

    def warnings(self, topic: str) -> tuple[str, ...]:
        return ()

    def make_dead_letter_topic(self, source: str) -> None: ...

    def make_result_topic(self, query: Query, node: logical.Node) -> Query:
        self.made.append(query.topic)
        return query

    def offer_schema(self, source: Source) -> None: ...

    def delete(self, dropped: DroppedTopic) -> None:
        if self.away:
            raise ExternalError("kafka is away")
        self.deleted.append(dropped.topic)


class MemoryLogEnds:
    """The instants up to which queries are published, by id."""

    def __init__(self) -> None:
        self.instants: dict[str, int] = {}

    def published(self, query: str) -> int | None:
        return self.instants.get(query)

    def instant_after(self, sources: Sequence[Source]) -> int | None:
        return None

    def earliest(self, sources: Sequence[Source]) -> FirstOffsets:
        return {}


class MemoryTables:
    """Records the statements about rows that were run. As in a cluster, one at a time may use the tables."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self._running = threading.Lock()

    def select(self, statement: Any, principal: Principal, cancelled: threading.Event) -> StatementResult:
        return self.write(statement, principal)

    def write(self, statement: Any, principal: Principal) -> StatementResult:
        self.ran.append(statement.sql)
        return StatementResult("SELECT", "0 rows")

    def point_select(self, sql: str) -> None:
        """No text is a point query."""

    load = look_up = write
    run = select

    @contextmanager
    def locked_empty(self, name: Name) -> Iterator[dict[int, int]]:
        with self._alone():
            yield {}

    def send_heartbeats(self) -> None:
        with self._alone():
            pass

    @contextmanager
    def _alone(self) -> Iterator[None]:
        assert self._running.acquire(blocking=False), "it would wait for itself"
        try:
            yield
        finally:
            self._running.release()


class StatementCluster:
    """A coordinator with one executor, which follows the catalog immediately, or stays at version `stuck_at`."""

    def __init__(
        self,
        sql: str = OBJECTS,
        halt_s: float = 30.0,
        control: Any = None,
        catalog: Catalog | None = None,
        sinks: str = "",
    ) -> None:
        self.log, self.tables = MemoryChangeLog(catalog), MemoryTables()
        self.topics, self.log_ends = MemoryTopics(), MemoryLogEnds()
        self.stuck_at: int | None = None
        #: The status of each query that the executor reports.
        self.lanes: dict[str, QueryStatus] = {}
        #: Called after each change of the catalog.
        self.changed: Callable[[], None] = lambda: None
        self.store = CatalogStore(log=self.log, apply_event=lambda _: None, changed=lambda: self.changed())
        self.parts = ClusterParts(
            python=True,
            store=self.store,
            facts=self,
            control=control,
            tables=self.tables,
            replays=self.tables,
            delete_topic=self.topics.delete,
            plans=CatalogFollowers(self.alive, stop_s=30.0, halt_s=halt_s),
            caller=ANYBODY,
            check_sink_target=AllowedTargets.of(sinks).check,
        )
        self.runner = StatementRunner(self.parts)
        self.runner.execute(sql, ANYBODY)

    def execute(self, sql: str, caller: Caller = ANYBODY) -> list[StatementResult]:
        return self.runner.execute(sql, caller)

    def start(self, sql: str) -> Background:
        """Runs statements in the background."""
        return Background(lambda: self.execute(sql))

    def await_gone(self, name: str) -> None:
        """Waits until the catalog has no object of this name."""
        assert wait_until(lambda: self.store.catalog.get(name) is None, 10, pause_s=0.005)

    def query(self, name: str) -> Query:
        query = self.store.catalog.find(name)
        assert isinstance(query, Query)
        return query

    def alive(self) -> Mapping[str, ExecutorStatus]:
        catalog = self.store.catalog
        version = catalog.version if self.stuck_at is None else self.stuck_at
        fragments = {name: RUNNING for query in catalog.queries() for name in query.fragments}
        return {"e": ExecutorStatus(RUNNING, version, lanes=self.lanes, fragments=fragments)}

    def utilization(self) -> Mapping[str, float]:
        return {"0": 0.0}

    def load_by_queries(self) -> Mapping[tuple[str, frozenset[str]], float]:
        return {}

    def statistics(self) -> Statistics:
        return Statistics()

    def states(self) -> States:
        return States(self.alive, {})

    cluster_name = "main"

    def cluster_mark(self) -> str | None:
        return "main"

    @contextmanager
    def executor_stuck(self) -> Iterator[None]:
        """While the block runs, the executor does not follow to later versions of the catalog."""
        before = self.stuck_at
        self.stuck_at = self.store.catalog.version if before is None else before
        try:
            yield
        finally:
            self.stuck_at = before

    @contextmanager
    def waiting_for_executors(self, sql: str) -> Iterator[Background]:
        """A statement that runs in the background, and waits for the executor while the block runs."""
        with self.executor_stuck():
            version = self.store.catalog.version
            statement = self.start(sql)
            assert wait_until(lambda: self.store.catalog.version > version, 10, pause_s=0.005)
            yield statement
            assert statement.running


class Background:
    """A call in a thread of its own, with its result or error."""

    def __init__(self, call: Callable[[], list[StatementResult]]) -> None:
        self._call, self._results = call, list[StatementResult]()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> list[StatementResult]:
        """Waits until the call has ended; returns its result or raises its error."""
        self._thread.join(20)
        assert not self.running
        if self._error is not None:
            raise self._error
        return self._results

    def _run(self) -> None:
        try:
            self._results = self._call()
        except BaseException as error:  # noqa: BLE001 it is raised where the result is asked for
            self._error = error
