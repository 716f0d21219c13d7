"""LocalSession: the whole system in one process, over in-memory logs, for unit tests of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa

from connectors.formats import RowDecoder
from dsms.catalog.catalog import Catalog
from dsms.catalog.objects import Object, Query, Source, Stream, Table
from dsms.catalog.register_table import apply
from dsms.catalog.result import StatementResult
from dsms.one_time import answer
from dsms.plan import logical
from dsms.plan.explain import explain
from dsms.plan.lane import Lane, compile_lane
from dsms.sql import statements as st
from dsms.sql.bind import plan_of
from dsms.sql.parse import parse
from dsms.stages.intake import Arrivals, DeadLetter, Intake, reading_schema
from dsms.stages.lane_run import StageStep, initial_state, read_stage, route, target_stage
from dsms.testing.changes import Change, as_changes, relation_at
from dsms.testing.local_tables import INSTANT, OPERATION, as_table, reached, written
from operators.clock import Heartbeat, PartitionClock
from operators.delta import BEGINNING, FROM, ORDER, Delta, origin, union_all
from operators.errors import UserError
from operators.operator import FAULT, Move, State
from operators.stream_output import OP


@dataclass
class _Log:
    """A source's log: records as they were pushed, and the promises between them."""

    records: list[Mapping[str, object]] = field(default_factory=list)
    heartbeats: list[Heartbeat] = field(default_factory=list)


@dataclass
class _Running:
    """A lane and where it stands."""

    lane: Lane
    #: On each target, the traces of each vertex.
    states: list[dict[int, tuple[State, ...]]]
    #: For each source, the next record and the clock.
    positions: dict[str, tuple[int, PartitionClock]]
    frontier: int = BEGINNING
    published: list[Change] = field(default_factory=list)

    def reached(self) -> int:
        """The frontier that the sources' clocks allow."""
        return max(self.frontier, min(clock.frontier for _, clock in self.positions.values()))


class LocalSession:
    """The system's language, planner, operators and frontiers without services: how queries are unit-tested.

    `partitions` is the number of parts of every exchange, `batch_records` the most records of one batch (None: all that
    are there). Neither changes a result.

    >>> session = LocalSession()
    >>> _ = session.execute("REGISTER SOURCE T (char RoomID, int Temperature) FROM t")
    >>> _ = session.execute("CREATE STREAM S OVER T KEY RoomID")
    >>> _ = session.execute("CREATE STREAMED VIEW Hot AS SELECT RoomID, Temperature FROM R(S) WHERE Temperature > 80")
    >>> session.push("T", [{"RoomID": "a", "Temperature": t, "ts": ts} for t, ts in ((78, 1), (105, 2), (76, 5))])
    >>> session.advance(6)
    >>> session.changes("Hot")
    [('+', {'RoomID': 'a', 'Temperature': 105}, 2), ('-', {'RoomID': 'a'}, 5)]
    """

    def __init__(self, partitions: int = 1, batch_records: int | None = None) -> None:
        if partitions < 1 or (batch_records is not None and batch_records < 1):
            raise UserError("partitions and batch_records must be positive")
        self.partitions = partitions
        self.batch_records = batch_records
        self.catalog = Catalog()
        self._logs: dict[str, _Log] = {}
        self._dead: dict[str, dict[tuple[object, ...], DeadLetter]] = {}
        self._running: dict[str, _Running] = {}

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
        return list(self._started(name).published)

    def relation(self, name: str, at: int | None = None) -> list[dict[str, object]]:
        """The rows of a stream, view or query at an instant below the frontier; by default the last one."""
        running = self._started(name)
        if at is not None and at >= running.frontier:
            raise UserError(
                f"instant {at} is not final yet", hint=f"the frontier is {running.frontier}; call advance({at + 1})"
            )
        return relation_at(running.published, running.lane.keys, at)

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
        return explain(node, compile_lane("explain", name, node))

    def _statement(self, statement: st.Statement) -> StatementResult:
        if isinstance(statement, st.Select):
            columns, rows = answer(statement.select, self.catalog, self._rows)
            return StatementResult("SELECT", f"{len(rows)} rows", columns, rows)
        if isinstance(statement, st.Insert | st.Update | st.Delete | st.LoadFile | st.LoadDatabase):
            return self._write(statement)
        before_ = self.catalog
        self.catalog, result = apply(statement, self.catalog, _LocalFacts())
        for found in before_.objects.values():
            if found.name.lower() not in self.catalog.objects:
                self._running.pop(found.id, None)
        for source in [*self.catalog.sources(), *(table.source for table in self.catalog.tables())]:
            self._logs.setdefault(source.id, _Log())
        started: list[Stream | Table | Query] = [
            *self.catalog.streams(), *self.catalog.tables(), *self.catalog.running()
        ]  # fmt: skip
        for found in started:
            if found.id not in self._running:
                self._start(found)
        self._work()
        self._tables_follow()
        return result

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
        clocks = [clock for running in self._running.values() for _, clock in running.positions.values()]
        return reached(clocks, [beat.time for log in self._logs.values() for beat in log.heartbeats[-1:]])

    def _tables_follow(self) -> None:
        """Tables hold back nobody: nothing is written to them below what the other logs have reached."""
        instant = self._reached()
        for table in self.catalog.tables():
            log = self._logs[table.source.id]
            if log.heartbeats[-1:] != [beat := Heartbeat(len(log.records), instant)]:
                log.heartbeats.append(beat)
        self._work()

    def _start(self, found: Stream | Table | Query) -> None:
        lane = compile_lane(
            found.id, found.name, plan_of(found.name, self.catalog), found if isinstance(found, Query) else None
        )
        state = dict(enumerate(initial_state(lane)))
        positions = {source.id: (0, PartitionClock()) for source in lane.sources}
        self._running[found.id] = _Running(lane, [dict(state) for _ in range(self.partitions)], positions)

    def _work(self) -> None:
        for running in self._running.values():
            while self._batch(running):
                pass

    def _batch(self, running: _Running) -> bool:
        """One batch of one lane: at most `batch_records` records of each source, then the move of the frontier."""
        arrived: list[dict[int, list[Delta]]] = [defaultdict(list) for _ in range(self.partitions)]
        read = [self._read(running, source, arrived) for source in running.lane.sources]
        if not any(read):
            return False
        move = Move(running.frontier, running.reached())
        for stage in range(1, running.lane.flow.stages + 1):
            self._stage(running, stage, arrived, move)
        running.frontier = move.end
        return True

    def _read(self, running: _Running, source: Source, arrived: list[dict[int, list[Delta]]]) -> bool:
        """The source stage over the next records of one source; whether there was anything new."""
        log, (start, clock) = self._logs[source.id], running.positions[source.id]
        end = min(len(log.records), start + (self.batch_records or len(log.records)))
        beats = tuple(beat for beat in log.heartbeats if start <= beat.offset <= end)
        if end == start and max((beat.time for beat in beats), default=BEGINNING) <= clock.frontier:
            return False
        admitted = _intake(source).admit(_arrivals(source, log, start, end, beats), clock)
        step = read_stage(running.lane, running.lane.leaf(source.id), admitted.delta)
        self._bury(source, admitted.dead)
        self._report(running.lane, step.faults)
        self._send(running.lane, step, arrived, 0)
        running.positions[source.id] = (end, admitted.clock)
        return True

    def _stage(self, running: _Running, stage: int, arrived: list[dict[int, list[Delta]]], move: Move) -> None:
        lane = running.lane
        inputs = [{one: union_all(parts) for one, parts in came.items()} for came in arrived]
        steps = [
            target_stage(lane, (stage, target), inputs[target], running.states[target], move)
            for target in range(self.partitions)
        ]
        for target, step in enumerate(steps):
            running.states[target] |= step.state
            self._report(lane, step.faults)
            self._send(lane, step, arrived, target)
        changes = [step.changes for step in steps if step.changes is not None]
        if changes:
            merged = pl.concat(changes).sort(FROM, ORDER, pl.col(OP) != "-", *lane.schema.names)
            running.published += as_changes(merged, lane.schema.names, lane.keys)

    def _send(self, lane: Lane, step: StageStep, arrived: list[dict[int, list[Delta]]], target: int) -> None:
        for exchange, delta in step.sent.items():
            parts = route(lane.flow.exchanges[exchange], delta, self.partitions, target)
            for to, part in enumerate(parts):
                arrived[to][exchange].append(part)

    def _report(self, lane: Lane, faults: Sequence[pl.DataFrame]) -> None:
        """Rows in fault are dead letters of the source whose record caused them."""
        for frame in faults:
            for order, reason in frame.select(ORDER, FAULT).iter_rows():
                leaf, _, offset = origin(order)
                source = lane.sources[leaf]
                record = self._logs[source.id].records[offset]
                self._bury(source, [DeadLetter(0, offset, reason, record, lane.name)])

    def _bury(self, source: Source, letters: Sequence[DeadLetter]) -> None:
        buried = self._dead.setdefault(source.id, {})
        for letter in letters:
            buried.setdefault((letter.offset, letter.query, letter.reason), letter)

    def _started(self, name: str) -> _Running:
        found = self.catalog.find(name)
        if isinstance(found, Source):
            raise UserError(f'"{found.name}" is a source', hint="ask for a stream, view or query over it")
        return self._running[found.id]

    def _source(self, name: str) -> Source:
        found = self.catalog.find(name)
        if not isinstance(found, Source):
            names = ", ".join(source.name for source in self.catalog.sources())
            raise UserError(f'"{found.name}" is not a source', hint=f"have: {names}")
        return found

    def _log_of(self, name: str) -> _Log:
        return self._logs[self._source(name).id]


class _LocalFacts:
    """The outside world of a session: every topic exists, with one partition."""

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        return {0: 0}

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        return query

    def state_of(self, found: Object) -> str:
        return "running" if isinstance(found, Query) else "registered"


def _intake(source: Source) -> Intake:
    upserts, deletions = reading_schema(source), reading_schema(source, deletions=True)
    return Intake(source, RowDecoder(upserts).decode, RowDecoder(deletions).decode)


def _arrivals(source: Source, log: _Log, start: int, end: int, beats: tuple[Heartbeat, ...]) -> Arrivals:
    """Pushed dicts as arrivals. What is no integer instant is refused by the intake, as `__ts` outside every range."""
    records = log.records[start:end]
    instants = pl.Series([_instant(record, source) for record in records], dtype=pl.Int64)
    op = OPERATION if source.table else "op"
    ops = [str(record[op]) if op in record else None for record in records] if source.tagged == "header" else None
    return Arrivals(0, np.arange(start, end), records, instants, ops, None, beats)


def _instant(record: Mapping[str, object], source: Source) -> int | None:
    ts = record.get(INSTANT if source.table else "ts")
    return ts if isinstance(ts, int) and not isinstance(ts, bool) and abs(ts) < 2**63 else None
