"""LocalSession: the whole system in one process, over in-memory logs, for unit tests of queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from dsms.introspection.entities import Report
from dsms.introspection.entity_sampling import Sampler, Waiting
from dsms.introspection.explain_analyze import explain_analyze
from dsms.introspection.show_tables import show
from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, Stream, Table
from dsms.model.statement_result import StatementResult
from dsms.physical.explain import explain
from dsms.physical.fragment_plan import Planned, plan_fragment, planned
from dsms.physical.lane import Output
from dsms.registration.replacement import retired
from dsms.registration.tables import apply
from dsms.runtime.stages.intake import DeadLetter
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser.parse import parse
from dsms.tables.one_time import answer
from dsms.testing.changes import Change, relation_at
from dsms.testing.local_lane import LocalLane, Log
from dsms.testing.local_tables import as_table, reached, written
from operators.core.clock import Heartbeat
from operators.core.delta import BEGINNING
from operators.core.errors import UserError


class LocalSession:
    """The system's language, planner, operators and frontiers without services: how queries are unit-tested.

    `partitions` is the number of parts of every exchange, `batch_records` the most records of one batch (None: all that
    are there). `sharing` lets queries share what is equal in them. None of these changes a result.

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
        self._sharing = sharing
        self._logs: dict[str, Log] = {}
        self._dead: dict[str, dict[tuple[object, ...], DeadLetter]] = {}
        self._lanes: list[LocalLane] = []

    def execute(self, sql: str) -> list[dict[str, object]]:
        """Runs one or more statements; gives the rows of the last one as dicts (of SELECT, SHOW, EXPLAIN, …)."""
        results = self.run(sql)
        last = results[-1] if results else StatementResult("", "")
        return [dict(zip(last.columns, row, strict=True)) for row in last.rows]

    def run(self, sql: str) -> list[StatementResult]:
        """Runs one or more statements; a failing one raises, those before it stay done."""
        return [self._statement(statement) for statement in parse(sql)]

    def push(self, source: str, records: Iterable[Mapping[str, object]]) -> None:
        """Appends dicts to a source's log, in order: the columns, `ts` (int), and for tagged input `op` (`+`, `u`,
        `-`)."""
        self._log_of(source).records.extend(dict(record) for record in records)
        self._work()
        self._tables_follow()

    def advance(self, ts: int) -> None:
        """Promises that every source has reached `ts`: output for instants below `ts` is final and published."""
        for log in self._logs.values():
            log.heartbeats.append(Heartbeat(len(log.records), ts))
        self._work()
        self._tables_follow()

    def changes(self, name: str) -> list[Change]:
        """Everything published so far, as (op, row, ts). The row of `-` on a keyed result is its key."""
        lane, output = self._started(name)
        return list(lane.published[output.id])

    def relation(self, name: str, at: int | None = None) -> list[dict[str, object]]:
        """The rows of a stream, view or query at an instant below the frontier; by default the last one."""
        lane, output = self._started(name)
        frontier = lane.frontier(output.id)
        if at is not None and at >= frontier:
            raise UserError(
                f"instant {at} is not final yet", hint=f"the frontier is {frontier}; call advance({at + 1})"
            )
        return relation_at(lane.published[output.id], output.keys, at)

    def dead_letters(self, source: str) -> list[dict[str, object]]:
        """What was refused and why: dicts with `offset`, `reason`, `record` and `query` (None: refused by the
        source)."""
        letters = self._dead.get(self._source(source).id, {}).values()
        ordered = sorted(letters, key=lambda letter: (letter.offset, letter.query or ""))
        return [
            {"offset": letter.offset, "reason": letter.reason, "record": letter.value, "query": letter.query}
            for letter in ordered
        ]

    def explain(self, name: str) -> str:
        """The plan of a stream, view or query as text."""
        node = plan_of(name, self.catalog)
        return explain(node, plan_fragment(self.catalog, 1).queries.values(), name)

    def reports(self) -> list[Report]:
        """What was measured of the lanes, each as a fragment."""
        return [self._report(number, lane) for number, lane in enumerate(self._lanes)]

    def _report(self, number: int, lane: LocalLane) -> Report:
        sampler, lanes = Sampler(str(number), lane.measures, time.monotonic()), {lane.lane.id: lane.lane}
        offsets = {(source, 0): offset for source, (offset, _) in lane.positions.items()}
        orders = {(source, 0): clock.orders for source, (_, clock) in lane.positions.items()}
        waiting = {lane.lane.id: Waiting(offsets, orders=orders)}
        topics = {source.topic: source.id for source in lane.lane.sources.values()}
        ends = {(topic, 0): len(self._logs[source].records) for topic, source in topics.items()}
        return Report(
            executor="local", fragment=str(number), at=time.time(), operators=sampler.operators(lanes),
            queues=sampler.queues(lanes, waiting, ends), synopses=sampler.synopses(lanes),
            constraints=sampler.constraints(lanes, waiting),
        )  # fmt: skip

    def _statement(self, statement: st.Statement) -> StatementResult:
        if isinstance(statement, st.Select):
            columns, rows = answer(statement.select, self.catalog, self._rows)
            return StatementResult("SELECT", f"{len(rows)} rows", columns, rows)
        if isinstance(statement, st.Insert | st.Update | st.Delete | st.LoadFile | st.LoadDatabase):
            return self._write(statement)
        if isinstance(statement, st.ShowEntities):
            return show(statement, self.reports(), self.catalog)
        if isinstance(statement, st.ExplainAnalyze):
            return explain_analyze(statement, self.reports(), self.catalog)
        if isinstance(statement, st.ShowExecutors | st.AlterExecutor):
            raise UserError("there are no executors in a session of one process", hint="it works on a cluster")
        self._retire()
        self.catalog, result = apply(statement, self.catalog, _LocalFacts(self._lanes))
        for source in [*self.catalog.sources(), *(table.source for table in self.catalog.tables())]:
            self._logs.setdefault(source.id, Log())
        self._follow_catalog()
        self._work()
        self._tables_follow()
        return result

    def _retire(self) -> None:
        """What queries were before is not needed once they have published as what they are."""
        for lane in self._lanes:
            published = {query: lane.frontier(query) for query in lane.queries}
            for one in [found for found in retired(self.catalog, published) if found.id in published]:
                self.catalog = self.catalog.with_changed(one)
                lane.replan(planned(one, self.catalog))

    def _follow_catalog(self) -> None:
        """What is gone stops; what is new starts in a lane of its own, at the beginning of its logs; what is paused
        stays where it is in one."""
        there = self._there()
        running = {query for lane in self._lanes for query in lane.queries}
        results = {one.name: lane.published[one.id] for lane in self._lanes for one in lane.planned}
        gone = running - {found.id for found in there}
        self._lanes = [lane for lane in self._lanes if lane.without(gone)]
        self._lanes += [self._lane(one, results) for one in there if one.id not in running]
        paused = [self._planned(one) for one in self.catalog.running() if one.still]
        self._lanes = [part for lane in self._lanes for part in lane.parted(paused)]
        for lane in self._lanes:
            lane.paused = any(one.id in lane.queries for one in paused)

    def _there(self) -> list[Stream | Table | Query]:
        """What runs."""
        return [*self.catalog.streams(), *self.catalog.tables(), *self.catalog.running()]

    def _lane(self, found: Stream | Table | Query, results: Mapping[str, list[Change]]) -> LocalLane:
        lane = LocalLane([self._planned(found)], self.partitions)
        if isinstance(found, Query) and found.since is not None:
            lane.follow(found.id, results[found.name], found.since)
        return lane

    def _planned(self, found: Stream | Table | Query) -> Planned:
        if isinstance(found, Query):
            return planned(found, self.catalog)
        return Planned(found.id, found.name, plan_of(found.name, self.catalog))

    def _write(self, statement: st.Insert | st.Update | st.Delete | st.LoadFile | st.LoadDatabase) -> StatementResult:
        """A statement takes effect at the furthest instant that any log has reached, and is final at once."""
        instant = self._reached()
        table, records, result = written(statement, self.catalog, self._rows, instant)
        log = self._logs[table.source.id]
        log.records.extend(records)
        if records:
            log.heartbeats.append(Heartbeat(len(log.records), instant + 1))
        self._work()
        self._tables_follow()
        return result

    def _rows(self, name: str) -> pa.Table:
        return as_table(name, self.relation(name), self.catalog)

    def _reached(self) -> int:
        clocks = [clock for lane in self._lanes for _, clock in lane.positions.values()]
        return reached(clocks, [beat.time for log in self._logs.values() for beat in log.heartbeats[-1:]])

    def _tables_follow(self) -> None:
        """Tables hold back nobody: nothing is written to them below what the other logs have reached."""
        instant = self._reached()
        for table in self.catalog.tables():
            log = self._logs[table.source.id]
            if log.heartbeats[-1:] != [beat := Heartbeat(len(log.records), instant)]:
                log.heartbeats.append(beat)
        self._work()

    def _work(self) -> None:
        for lane in self._lanes:
            while lane.batch(self._logs, self.batch_records):
                pass
        for lane in self._lanes:
            for source, letter in lane.dead:
                self._bury(source, letter)
            lane.dead.clear()
        if self._sharing:
            self._merge()

    def _merge(self) -> None:
        """Lanes that have come to one place of the logs go on as one."""
        merged: list[LocalLane] = []
        for lane in self._lanes:
            if not any(other.takes(lane) for other in merged):
                merged.append(lane)
        self._lanes = merged

    def _bury(self, source: Source, letter: DeadLetter) -> None:
        buried = self._dead.setdefault(source.id, {})
        value = self._logs[source.id].records[letter.offset] if letter.value is None else letter.value
        buried.setdefault((letter.offset, letter.query, letter.reason), replace(letter, value=value))

    def _started(self, name: str) -> tuple[LocalLane, Output]:
        found = self.catalog.find(name)
        if isinstance(found, Source):
            raise UserError(f'"{found.name}" is a source', hint="ask for a stream, view or query over it")
        lane = next(one for one in self._lanes if found.id in one.queries)
        return lane, next(one for one in lane.lane.outputs if one.id == found.id)

    def _source(self, name: str) -> Source:
        found = self.catalog.find(name)
        if not isinstance(found, Source):
            names = ", ".join(source.name for source in self.catalog.sources())
            raise UserError(f'"{found.name}" is not a source', hint=f"have: {names}")
        return found

    def _log_of(self, name: str) -> Log:
        return self._logs[self._source(name).id]


class _LocalFacts:
    """The outside world of a session: every topic exists, with one partition."""

    def __init__(self, lanes: list[LocalLane]) -> None:
        self._lanes = lanes

    def busy(self) -> Mapping[str, float]:
        return {"0": 0.0}

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        return {0: 0}

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        return query

    def reached(self, sources: Sequence[Source]) -> int | None:
        found = [lane.reached(source.id) for lane in self._lanes for source in sources]
        return max((at for at in found if at is not None), default=None)

    def published(self, query: str) -> int | None:
        frontier = next((lane.frontier(query) for lane in self._lanes if query in lane.queries), BEGINNING)
        return None if frontier == BEGINNING else frontier

    def state_of(self, found: Object) -> str:
        return ("paused" if found.paused else "running") if isinstance(found, Query) else "registered"
