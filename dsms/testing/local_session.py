"""LocalSession: the whole system in one process, over in-memory logs, for unit tests of queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from dsms.introspection.entities import Report
from dsms.introspection.entity_sampling import Sampler, WaitingInput
from dsms.introspection.statistics import statistics_of
from dsms.model.catalog import Catalog
from dsms.model.instants import Instant, given_instant
from dsms.model.limits import Limits
from dsms.model.objects import Object, Query, Source, Stream, Table
from dsms.model.statement_result import StatementResult
from dsms.planner.physical.explain import explain
from dsms.planner.physical.fragment_plan import FragmentPlan, PlannedQuery, plan_fragment, plans_of
from dsms.planner.physical.lane import Output
from dsms.registration.next_plans import switched_to_next_plan
from dsms.registration.object_columns import schema_and_keys
from dsms.registration.replacement import with_former_dropped
from dsms.runtime.epoch.dead_letters import NO_RECORD, DeadRecord
from dsms.runtime.lanes.revision import ready_next_plans
from dsms.sql.binder.bind import plan_of
from dsms.statements.registry import parse, resolved_statement, run
from dsms.tables.clock_rows import clock_rows
from dsms.testing.changes import Change, relation_at
from dsms.testing.local_context import Decide, LocalContext
from dsms.testing.local_logs import Log, as_records
from dsms.testing.local_runtime import LocalRuntime
from dsms.testing.local_tables import Records, reached
from operators.core.clock import Heartbeat
from operators.core.errors import InternalError, UserError
from operators.python import register


class LocalSession:
    """The system's language, planner, operators and frontiers without services, to unit-test queries.

    `partitions` is the number of targets of every exchange, `batch_records` the most records of a batch (None: no
    limit). `sharing` lets queries share equal parts. None of these changes a result.

    >>> session = LocalSession()
    >>> _ = session.execute("REGISTER SOURCE T (char RoomID, int Temperature) FROM t")
    >>> _ = session.execute("CREATE STREAM S OVER T KEY RoomID")
    >>> _ = session.execute("CREATE STREAMED VIEW Hot AS SELECT RoomID, Temperature FROM R(S) WHERE Temperature > 80")
    >>> session.push("T", [{"RoomID": "a", "Temperature": t, "ts": ts} for t, ts in ((78, 1), (105, 2), (76, 5))])
    >>> session.advance(6)
    >>> session.changes("Hot")
    [('+', {'RoomID': 'a', 'Temperature': 105}, 2), ('-', {'RoomID': 'a'}, 5)]
    """

    def __init__(self, partitions: int = 1, batch_records: int | None = None, *, sharing: bool = True) -> None:
        if partitions < 1 or (batch_records is not None and batch_records < 1):
            raise UserError("partitions and batch_records must be positive")
        self.partitions = partitions
        self.batch_records = batch_records
        self.catalog = Catalog()
        #: The timestamp of records that are pushed, in milliseconds.
        self.now: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.runtime = LocalRuntime(partitions, sharing=sharing)
        self._reported: set[str] = set()

    def execute(self, sql: str) -> list[dict[str, object]]:
        """Runs one or more statements; returns the rows of the last one (SELECT, SHOW, EXPLAIN, …) as dicts. The second
        of two columns named `k` is called `k_1`."""
        results = self.run(sql)
        return results[-1].documents() if results else []

    def run(self, sql: str) -> list[StatementResult]:
        """Runs one or more statements; a failing one raises, those before it stay done."""
        results, context = [], LocalContext(self, self._change_catalog, self._append)
        for statement in parse(sql, Limits()):
            results.append(run(resolved_statement(statement, self.catalog), context))
            self._report_failures()
        return results

    def register_function(self, signature: str, function: Callable[..., object]) -> None:
        """Makes a Python function available in SQL, or replaces it. It runs in this process: it takes an Arrow array
        for each parameter, and returns an array or list with as many values.

        >>> session = LocalSession()
        >>> session.register_function("twice(n INT) RETURNS BIGINT", lambda n: [2 * value.as_py() for value in n])
        >>> _ = session.execute("REGISTER SOURCE T (a INT) FROM t; CREATE STREAM S OVER T KEY NULL")
        >>> _ = session.execute("CREATE STREAMED VIEW V AS SELECT twice(a) AS a FROM S")
        >>> session.push("T", [{"a": 7, "ts": 1}])
        >>> session.advance(2)
        >>> session.changes("V")
        [('+', {'a': 14}, 1)]
        """
        self.execute(f"CREATE OR REPLACE FUNCTION {signature} LANGUAGE PYTHON REGISTERED '{register(function)}'")

    def register_aggregate(self, class_: type, signature: str) -> None:
        """Makes a Python class an SQL aggregate, or replaces it. It runs in this process. See docs/aggregates.md.

        >>> class Longest:
        ...     def initialise(self, text): self.text = text
        ...     def iterate(self, text): self.text = max(self.text, text, key=len)
        ...     def terminate(self): return self.text
        >>> session = LocalSession()
        >>> session.register_aggregate(Longest, "longest(text VARCHAR) RETURNS VARCHAR")
        >>> _ = session.execute("REGISTER SOURCE T (a VARCHAR) FROM t; CREATE STREAM S OVER T KEY NULL")
        >>> _ = session.execute("CREATE VIEW V AS SELECT longest(a) AS a FROM R(S)")
        >>> session.push("T", [{"a": "one", "ts": 1}, {"a": "three", "ts": 2}])
        >>> session.advance(3)
        >>> session.relation("V")
        [{'a': 'three'}]
        """
        self.execute(f"CREATE OR REPLACE AGGREGATE {signature} LANGUAGE PYTHON REGISTERED '{register(class_)}'")

    def push(self, source: str, records: Iterable[Mapping[str, object]]) -> None:
        """Appends dicts to a source's log, in order: the columns, `ts`, and for tagged input `op` (`+`, `u`, `-`). `ts`
        is a number, a date or a datetime; any other value makes the record a dead letter that shows the value."""
        log, pushed = self._log_of(source), as_records(records)
        log.pushes.append((len(log.records), self.now()))
        log.records.extend(pushed)
        self._work()
        self._advance_tables()
        self._report_failures()

    def advance(self, ts: Instant) -> None:
        """Promises that every source has reached `ts`: output for instants below `ts` is final and published. A date, a
        datetime or a text in ISO 8601 (in UTC, if it names no zone) is taken as milliseconds since 1970, as in a column
        of TIMESTAMP BY."""
        instant = given_instant(ts)
        filled = {table.source.id for table in self.catalog.tables() if table.filled_by is not None}
        for log in (log for source, log in self.runtime.logs.items() if source not in filled):
            log.heartbeats.append(Heartbeat(len(log.records), instant))
        self._work()
        self._advance_tables()
        self._report_failures()

    def idle(self, *sources: str) -> None:
        """Makes sources idle, by default all of them: they are silent for the time of their `IDLE AFTER`, while the
        others go on. An idle source no longer holds back the queries that read it; one with `IDLE NEVER` still does.

        >>> session = LocalSession()
        >>> _ = session.execute("REGISTER SOURCE T (a INT) FROM t; CREATE STREAM S OVER T KEY NULL")
        >>> _ = session.execute("CREATE STREAMED VIEW V AS SELECT a FROM S")
        >>> session.push("T", [{"a": 7, "ts": 1}])
        >>> session.changes("V")
        []
        >>> session.idle("T")
        >>> session.changes("V")
        [('+', {'a': 7}, 1)]
        """
        named = sources or [source.name for source in self.catalog.sources()]
        silent = {version.id for name in named for version in self._source(name).versions}
        while self.runtime.log_due_heartbeats(silent):
            self._work()
            self._advance_tables()

    def changes(self, name: str) -> list[Change]:
        """Everything published so far, as (op, row, ts). The row of `-` on a keyed result is its key."""
        return list(self.runtime.results[self._output_of(name).id])

    def relation(self, name: str, at: Instant | None = None) -> list[dict[str, object]]:
        """The rows of a stream, view or query at an instant below the frontier; by default the last one."""
        instant = None if at is None else given_instant(at)
        if (view := self._view_over_clock(name)) is not None:
            return clock_rows(view, self.reached() - 1 if instant is None else instant, self.catalog).to_pylist()
        output = self._output_of(name)
        frontier = self.runtime.frontier(output.id)
        if instant is not None and instant >= frontier:
            raise UserError(
                f"instant {instant} is not final yet", hint=f"the frontier is {frontier}; call advance({instant + 1})"
            )
        return relation_at(self.runtime.results[output.id], output.keys, instant)

    def dead_letters(self, source: str) -> list[dict[str, object]]:
        """The refused records of a source: dicts with `offset`, `reason`, `record` and `query` (None: refused by the
        source). A record that several versions of the source refused is listed once, with the first reason."""
        source_id, name = self._source(source).id, self._source(source).name
        dead_letters: dict[tuple[int, str, str], DeadRecord] = {}
        for dead_letter in self.runtime.dead:
            if dead_letter.source == name:
                by = (dead_letter.query, dead_letter.reason) if dead_letter.query is not None else ("", "")
                dead_letters.setdefault((dead_letter.offset, *by), dead_letter)
        records = self.runtime.logs[source_id].records
        return [
            {
                "offset": dead_letter.offset,
                "reason": dead_letter.reason,
                "record": None if dead_letter.reason.endswith(NO_RECORD) else records[dead_letter.offset],
                "query": dead_letter.query,
            }
            for _, dead_letter in sorted(dead_letters.items())
        ]

    def explain(self, name: str) -> str:
        """The plan of a stream, view or query as text."""
        node = plan_of(name, self.catalog)
        return explain(node, plan_fragment(self.catalog, 1).queries.values(), name, statistics_of(self.reports()))

    def key(self, name: str) -> tuple[str, ...]:
        """The key columns of a stream, view or query; empty if its result is a bag."""
        view = self._view_over_clock(name)
        return self._output_of(name).keys if view is None else schema_and_keys(view, self.catalog)[1]

    def running(self) -> Iterable[Stream | Table | Query]:
        """Everything that the session runs: queries, and the streams and tables, so that `relation` can return them."""
        return [*self.catalog.streams(), *self.catalog.tables(), *self.catalog.running()]

    def follow_catalog(self) -> None:
        """Runs the queries of the catalog from now on; new ones begin at the beginning of their logs."""
        for source in self.catalog.logs():
            known = (self.runtime.logs[id] for id in source.ids if id in self.runtime.logs)
            self.runtime.logs[source.id] = next(known, None) or Log()  # all versions of a source read one log
        self.runtime.follow(self._plan())
        self._work()

    def reached(self) -> int:
        """The greatest instant that any log has reached; the next statement about a table takes effect at it."""
        clocks = [at.clock for _, at in self.runtime.positions()]
        return reached(clocks, [beat.time for log in self.runtime.logs.values() for beat in log.heartbeats[-1:]])

    def reports(self) -> list[Report]:
        """The measurements of the queries, as the report of a fragment."""
        runtime, lanes = self.runtime, self.runtime.revision.lanes
        sampler = Sampler("0", runtime.metrics, time.monotonic())
        waiting = {
            lane_id: WaitingInput(
                {place: at.offset for place, at in progress.places.items()},
                orders={place: at.orders for place, at in progress.places.items()},
            )
            for lane_id, progress in runtime.revision.manifest.lanes.items()
        }
        topics = {source.topic: source.id for lane in lanes.values() for source in lane.sources.values()}
        ends = {(topic, 0): len(runtime.logs[source].records) for topic, source in topics.items()}
        return [
            Report(
                executor="local",
                fragment="0",
                at=time.time(),
                operators=sampler.operators(lanes),
                queues=sampler.queues(lanes, waiting, ends),
                synopses=sampler.synopses(lanes),
                constraints=sampler.constraints(lanes, waiting),
            )
        ]

    def _change_catalog(self, decide: Decide) -> StatementResult:
        """Changes the catalog, and runs its queries from now on. Returns the result of the change."""
        self._retire()
        before = {source.id: source.name for source in self.catalog.sources()}
        self.catalog, result = decide(self.catalog)
        names = {before[source.id]: source.name for source in self.catalog.sources() if source.id in before}
        self.runtime.dead = [
            replace(letter, source=names.get(letter.source, letter.source)) for letter in self.runtime.dead
        ]
        self.follow_catalog()
        self._advance_tables()
        return result

    def _append(self, table: Table, records: Records, instant: int) -> None:
        """Appends records of an instant to the log of a table; they are final at once."""
        log = self.runtime.logs[table.source.id]
        log.records.extend(records)
        if records:
            log.heartbeats.append(Heartbeat(len(log.records), instant + 1))
        self._work()
        self._advance_tables()

    def _retire(self) -> None:
        """Drops the former plans of replaced queries whose new plans have published results."""
        published = {query: self.runtime.frontier(query) for query in self.runtime.results}
        changed = [query for query in with_former_dropped(self.catalog, published) if query.id in published]
        if changed:
            self.catalog = self.catalog.with_changed(*changed)
            self.runtime.follow(self._plan())

    def _take_next_plans(self) -> None:
        """Replaces the current plans of queries by their next plans, once these are exact."""
        if changed := list(switched_to_next_plan(self.catalog, ready_next_plans(self.runtime.revision))):
            self.catalog = self.catalog.with_changed(*changed)
            self.runtime.follow(self._plan())

    def _plan(self) -> FragmentPlan:
        """The plan of everything in `running`."""
        known = self.runtime.revision.plan.queries
        plans = [plan for readable in self.running() for plan in self._plans_of(readable, known)]
        return FragmentPlan(self.catalog.version, self.partitions, {plan.id: plan for plan in plans})

    def _plans_of(self, readable: Stream | Table | Query, known: Mapping[str, PlannedQuery]) -> Iterator[PlannedQuery]:
        if isinstance(readable, Query):
            yield from plans_of(readable, self.catalog, known)
        else:
            id = self._plan_id(readable)
            plan = PlannedQuery(id, readable.name, plan_of(readable.name, self.catalog))
            before = known.get(id)
            yield before if before == plan else plan

    def _advance_tables(self) -> None:
        """Advances the tables to the instant that the other logs have reached, so that tables hold back no frontier:
        nothing is written to them below it."""
        instant = self.reached()
        for table in self.catalog.written_tables():
            log = self.runtime.logs[table.source.id]
            if log.heartbeats[-1:] != [beat := Heartbeat(len(log.records), instant)]:
                log.heartbeats.append(beat)
        self._work()

    def _work(self) -> None:
        self.runtime.run(self.batch_records)
        self._take_next_plans()
        if self._forward_late_records():
            self._work()

    def _forward_late_records(self) -> bool:
        """Appends records that were refused as late to the sources for late records; returns whether there were any."""
        moved = False
        for source in self.catalog.sources():
            if source.late_of is not None:
                log, records = self.runtime.logs[source.id].records, self._log_of(source.late_of).records
                late = [
                    dead_letter.offset
                    for dead_letter in self.runtime.dead
                    if dead_letter.refused_late_by(source.late_of)
                ]
                fresh = [{**records[offset], "ts": self.reached()} for offset in late[len(log) :]]
                log.extend(fresh)
                moved = moved or bool(fresh)
        return moved

    def _view_over_clock(self, name: str) -> Query | None:
        named = self.catalog.find(name)
        return named if isinstance(named, Query) and named.periodic is not None else None

    def _output_of(self, name: str) -> Output:
        named = self.catalog.find(name)
        if isinstance(named, Source):
            raise UserError(f'"{named.name}" is a source', hint="ask for a stream, view or query over it")
        if self._view_over_clock(name) is not None:
            message = f'"{named.name}" is computed from the clock, so it publishes no changes'
            raise UserError(message, hint="ask for its relation, or SELECT from it")
        id = self._plan_id(named)
        if id in self.runtime.failed:
            raise InternalError(self.runtime.failed[id])
        return self.runtime.output(id)

    def _plan_id(self, named: Object) -> str:
        """The id of the plan that computes the relation of an object. A stream or table with other columns than before
        has another plan."""
        read = named.source if isinstance(named, Table) else None
        if isinstance(named, Stream):
            read = self._source(named.source)
        return named.id if read is None or not read.earlier_ids else f"{named.id}@{read.id}"

    def _report_failures(self) -> None:
        """Raises the failure of a query once; asking for its result raises it again. The other queries continue."""
        unreported = [query for query in self.runtime.failed if query not in self._reported]
        self._reported |= set(unreported)
        if unreported:
            raise InternalError("; ".join(self.runtime.failed[query] for query in unreported))

    def _source(self, name: str) -> Source:
        named = self.catalog.find(name)
        if not isinstance(named, Source):
            names = ", ".join(source.name for source in self.catalog.sources())
            raise UserError(f'"{named.name}" is not a source', hint=f"have: {names}")
        return named

    def _log_of(self, name: str) -> Log:
        return self.runtime.logs[self._source(name).id]
